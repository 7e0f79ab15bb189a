// Command example takes one run through its life with a Jackline server: it starts the run, watches it, cuts the
// stream, steers, resumes where the stream was cut, aborts, and reads why a further command is refused.
//
// It prints one JSON object a step. JACKLINE_ADDRESS names the server, 127.0.0.1:50051 unless set; JACKLINE_TOKEN is
// required. The workflow and its input may be given as arguments.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"jackline/client/go/jacklinev1"
)

const (
	callTimeout  = 15 * time.Second
	watchTimeout = 2 * time.Minute
	defaultInput = `{"message": "My lamp is broken, please refund it.", "order_id": "A-1001", "shop": "eu"}`
)

func main() {
	err := example(argument(1, "refunds"), argument(2, defaultInput))
	if err != nil {
		code, info := explain(err)
		show("failed", fields{"code": code, "reason": info.GetReason(), "message": err.Error()})
		os.Exit(1)
	}
}

func example(workflow, input string) error {
	connection, err := connect()
	if err != nil {
		return err
	}
	defer connection.Close()
	runs := jacklinev1.NewRunServiceClient(connection)

	// The request id makes it safe to send this again when no answer came.
	started, err := start(runs, &jacklinev1.StartRunRequest{
		Source:     &jacklinev1.StartRunRequest_Workflow{Workflow: workflow},
		InputValue: &jacklinev1.StartRunRequest_InputJson{InputJson: []byte(input)},
		RequestId:  "example-" + rand.Text(),
	})
	if err != nil {
		return err
	}
	runID := started.GetRun().GetRunId()
	show("started", fields{"run_id": runID, "disposition": bare(started.GetDisposition(), "START_DISPOSITION_")})

	watcher := &watcher{runs: runs, runID: runID}
	seen, _, err := watcher.follow(func(event *jacklinev1.StepEvent) bool { return event.GetModelCallStarted() != nil })
	if err != nil {
		return err
	}
	show("cut", fields{"sequences": seen, "sent_through": watcher.position})

	steered, err := control(runs, &jacklinev1.ControlRequest{
		RunId:     runID,
		CommandId: "example-" + rand.Text(),
		Command: &jacklinev1.ControlRequest_Steer{
			Steer: &jacklinev1.SteerCommand{Text: "The customer is a regular: be generous."},
		},
	})
	if err != nil {
		return err
	}
	show("steered", fields{"stage": bare(steered.GetReceipt().GetStage(), "RECEIPT_STAGE_")})

	after := watcher.position
	seen, _, err = watcher.follow(func(event *jacklinev1.StepEvent) bool { return event.GetSteered() != nil })
	if err != nil {
		return err
	}
	show("resumed", fields{"after_sequence": after, "sequences": seen, "sent_through": watcher.position})

	aborted, err := control(runs, &jacklinev1.ControlRequest{
		RunId:   runID,
		Reason:  "The example is over.",
		Wait:    jacklinev1.ReceiptStage_RECEIPT_STAGE_SETTLED,
		Command: &jacklinev1.ControlRequest_Abort{Abort: &jacklinev1.AbortCommand{SkipRoutes: true}},
	})
	if err != nil {
		return err
	}
	show("aborted", fields{
		"disposition": bare(aborted.GetReceipt().GetDisposition(), "COMMAND_DISPOSITION_"),
		"reached":     aborted.GetReached(),
	})

	seen, last, err := watcher.follow(func(event *jacklinev1.StepEvent) bool { return event.GetRunFinished() != nil })
	if err != nil {
		return err
	}
	show("finished", fields{
		"sequences":   seen,
		"state":       bare(last.GetRunFinished().GetState(), "RUN_STATE_"),
		"stop_reason": bare(last.GetRunFinished().GetStopReason(), "STOP_REASON_"),
	})

	// Errors are told apart by their reason, never by their text.
	_, err = control(runs, &jacklinev1.ControlRequest{
		RunId:   runID,
		Command: &jacklinev1.ControlRequest_Pause{Pause: &jacklinev1.PauseCommand{}},
	})
	if code, info := explain(err); info != nil {
		show("refused", fields{"code": code, "reason": info.GetReason(), "metadata": info.GetMetadata()})
		return nil
	}
	return fmt.Errorf("a pause of a finished run was not refused with a reason: %w", err)
}

// watcher reads the events of one run over as many streams as it takes.
type watcher struct {
	runs     jacklinev1.RunServiceClient
	runID    string
	position uint64 // Every event up to this one has been taken: where the next stream starts.
}

// follow reads on from the position until an event is the wanted one, and cuts the stream there. It returns the
// sequences that it took and that event. A stream that ends before the run has is an error, never an end.
func (w *watcher) follow(wanted func(*jacklinev1.StepEvent) bool) ([]uint64, *jacklinev1.StepEvent, error) {
	ctx, cut := context.WithTimeout(context.Background(), watchTimeout)
	defer cut()
	stream, err := w.runs.StreamProgress(ctx, &jacklinev1.StreamProgressRequest{RunId: w.runID, AfterSequence: w.position})
	if err != nil {
		return nil, nil, err
	}
	var taken []uint64
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("the run ended at event %d without what was waited for", w.position)
		}
		if err != nil {
			return nil, nil, err
		}
		var found *jacklinev1.StepEvent
		for _, event := range frame.GetEvents() {
			if event.GetSequence() != w.position+1 {
				return nil, nil, fmt.Errorf("event %d follows event %d", event.GetSequence(), w.position)
			}
			w.position = event.GetSequence()
			taken = append(taken, w.position)
			if found == nil && wanted(event) {
				found = event
			}
		}
		if frame.GetSentThrough() != w.position {
			return nil, nil, fmt.Errorf("sent through %d, and event %d was the last", frame.GetSentThrough(), w.position)
		}
		if found != nil {
			return taken, found, nil
		}
	}
}

func start(runs jacklinev1.RunServiceClient, request *jacklinev1.StartRunRequest) (*jacklinev1.StartRunResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return runs.StartRun(ctx, request)
}

func control(runs jacklinev1.RunServiceClient, request *jacklinev1.ControlRequest) (*jacklinev1.ControlResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return runs.Control(ctx, request)
}

// connect opens a plaintext connection, for a server on this machine. Elsewhere the token needs TLS: replace
// insecure.NewCredentials by credentials.NewTLS.
func connect() (*grpc.ClientConn, error) {
	token := os.Getenv("JACKLINE_TOKEN")
	if token == "" {
		return nil, errors.New("JACKLINE_TOKEN is not set; `jackline token print` shows the token of a server on this machine")
	}
	address := os.Getenv("JACKLINE_ADDRESS")
	if address == "" {
		address = "127.0.0.1:50051"
	}
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(bearer(token)),
	)
}

// bearer sends the token with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// explain returns the status code of an error and the server's reason; without a reason, nil.
func explain(err error) (string, *errdetails.ErrorInfo) {
	answer, ok := status.FromError(err)
	if !ok {
		return "", nil
	}
	name := code.Code(answer.Code()).String()
	for _, detail := range answer.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "jackline" {
			return name, info
		}
	}
	return name, nil
}

type fields map[string]any

func show(step string, values fields) {
	values["step"] = step
	line, err := json.Marshal(values)
	if err != nil {
		panic(err) // Only numbers, strings and lists of them are shown.
	}
	fmt.Println(string(line))
}

func bare(value fmt.Stringer, prefix string) string {
	return strings.TrimPrefix(value.String(), prefix)
}

func argument(number int, otherwise string) string {
	if len(os.Args) > number {
		return os.Args[number]
	}
	return otherwise
}
