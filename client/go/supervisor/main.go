// Command supervisor watches all runs of a Jackline server from outside and steers, pauses or aborts them by simple rules.
//
// It uses the public contract alone: it lists live runs, follows each by StreamProgress in the metadata view, and acts by
// Control. It keeps nothing: a stream that breaks is opened again where it broke, and a supervisor that is started anew, or
// a second one beside it, makes the same commands of the same events, which the server carries out once.
//
//	go run ./supervisor -rules '[{"when": "calls", "tool": "lookup_order", "count": 3, "then": "pause", "text": "It loops."}]'
//
// What a rule says stands in -help. What the supervisor does stands on standard output, a JSON object a line.
// JACKLINE_ADDRESS names the server, 127.0.0.1:50051 unless set; JACKLINE_TOKEN is required, with the scopes runs:observe and
// runs:control. A server that is away is waited for; one that refuses the token ends the supervisor, with the exit code 77.
//
// It acts when it has seen an event, not before, and sees no run that begins and ends between two looks (-every): a rule
// that has to stop a call itself, or has to hold for every run, stands in the workflow, under `supervisor`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"jackline/client/go/jacklinev1"
)

const (
	callTimeout    = 15 * time.Second
	firstWait      = 200 * time.Millisecond
	longestWait    = 10 * time.Second
	longestActWait = 2 * time.Second
	runsPerPage    = 200
)

// The exit codes, as the `jackline` command has them.
const (
	exitUsage  = 2
	exitDenied = 77
)

var live = []jacklinev1.RunState{
	jacklinev1.RunState_RUN_STATE_QUEUED,
	jacklinev1.RunState_RUN_STATE_RUNNING,
	jacklinev1.RunState_RUN_STATE_PAUSED,
	jacklinev1.RunState_RUN_STATE_WAITING,
}

func main() {
	rulesText := flag.String("rules", "[]", "the rules, a JSON `list`")
	workflow := flag.String("workflow", "", "only runs of this workflow; all unless set")
	every := flag.Duration("every", time.Second, "how often to look for new runs; one that ends sooner is not seen")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: supervisor -rules LIST [-workflow NAME] [-every TIME]")
		flag.PrintDefaults()
		fmt.Fprint(flag.CommandLine.Output(), rulesHelp)
	}
	flag.Parse()
	rules, err := parseRules(*rulesText)
	if err != nil {
		fail(exitUsage, err)
	}
	connection, err := connect()
	if err != nil {
		fail(exitDenied, err)
	}
	defer connection.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	s := &supervisor{runs: jacklinev1.NewRunServiceClient(connection), rules: rules, workflow: *workflow, end: end}
	show(fields{"step": "watching", "rules": len(rules)})
	s.supervise(ctx, *every)
	s.followers.Wait()
	if cause := context.Cause(ctx); isDenied(cause) {
		said := status.Convert(cause)
		fail(exitDenied, fmt.Errorf(
			"%s refuses the token in JACKLINE_TOKEN (%s: %s); it has to be one of that server, with the scopes runs:observe and runs:control",
			connection.Target(), said.Code(), said.Message(),
		))
	}
}

// A supervisor follows each live run in a goroutine of its own, until the run has ended.
type supervisor struct {
	runs      jacklinev1.RunServiceClient
	rules     []rule
	workflow  string
	end       context.CancelCauseFunc // Ends all of it, for a reason that no waiting mends.
	followed  sync.Map
	followers sync.WaitGroup
}

// supervise looks for new runs until it is stopped, or the server refuses it. A list that can't be had for another reason
// is tried again at the next time.
func (s *supervisor) supervise(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := s.find(ctx); isDenied(err) {
			s.end(err)
		} else if err != nil && ctx.Err() == nil {
			show(fields{"step": "unreachable", "code": status.Code(err).String()})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// find begins to follow every live run that it does not follow yet.
func (s *supervisor) find(ctx context.Context) error {
	token := ""
	for {
		called, cancel := context.WithTimeout(ctx, callTimeout)
		page, err := s.runs.ListRuns(called, &jacklinev1.ListRunsRequest{
			States: live, Workflow: s.workflow, PageSize: runsPerPage, PageToken: token,
		})
		cancel()
		if err != nil {
			return err
		}
		for _, run := range page.GetRuns() {
			runID := run.GetRunId()
			if _, known := s.followed.LoadOrStore(runID, true); known {
				continue
			}
			s.followers.Add(1)
			go func() {
				defer s.followers.Done()
				defer s.followed.Delete(runID)
				s.follow(ctx, newWatched(runID, s.rules))
			}()
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

// follow watches a run to its end, over as many streams as it takes.
func (s *supervisor) follow(ctx context.Context, run *watched) {
	for attempt := 0; ctx.Err() == nil && !run.finished; attempt++ {
		before := run.position
		err := s.stream(ctx, run)
		if err == nil || ctx.Err() != nil {
			return
		}
		if code := status.Code(err); code == codes.NotFound || code == codes.PermissionDenied {
			show(fields{"step": "left", "run_id": run.runID, "code": code.String()})
			return
		}
		if run.position > before {
			attempt = 0
		}
		show(fields{"step": "broken", "run_id": run.runID, "code": status.Code(err).String(), "after": run.position})
		wait(ctx, attempt, longestWait)
	}
}

// stream follows a run from its position until the stream ends. A nil error means that the run has ended.
func (s *supervisor) stream(ctx context.Context, run *watched) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.runs.StreamProgress(ctx, &jacklinev1.StreamProgressRequest{
		RunId: run.runID, AfterSequence: run.position, View: jacklinev1.View_VIEW_METADATA, Kinds: kinds,
	})
	if err != nil {
		return err
	}
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, event := range frame.GetEvents() {
			for _, decided := range run.take(event) {
				s.act(ctx, run.runID, decided)
			}
		}
		run.position = max(run.position, frame.GetSentThrough())
	}
}

// act sends a command until the server has answered, whatever it answers and however long it is away: nothing would send it
// later. To send it again changes nothing.
func (s *supervisor) act(ctx context.Context, runID string, decided decision) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		called, cancel := context.WithTimeout(ctx, callTimeout)
		answer, err := s.runs.Control(called, decided.request(runID))
		cancel()
		told := fields{"step": decided.rule.Then, "run_id": runID, "command_id": decided.commandID}
		switch status.Code(err) {
		case codes.OK:
			told["stage"] = answer.GetReceipt().GetStage().String()
			show(told)
			return
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
			wait(ctx, attempt, longestActWait)
		default:
			if isDenied(err) { // What can't act need not watch.
				s.end(err)
			}
			// The run has ended, or may not be touched: a later command would fare no better.
			told["refused"] = status.Code(err).String()
			show(told)
			return
		}
	}
}

// isDenied tells that the server refuses the token whatever is asked with it: it is wrong, or lacks a scope. That a single
// run may not be touched is another thing.
func isDenied(err error) bool {
	said := status.Convert(err)
	if said.Code() == codes.PermissionDenied {
		for _, detail := range said.Details() {
			if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "jackline" {
				return info.GetReason() == "SCOPE_MISSING"
			}
		}
	}
	return said.Code() == codes.Unauthenticated
}

// wait sleeps ever longer, half of it by chance, unless the context ends first.
func wait(ctx context.Context, attempt int, most time.Duration) {
	longest := min(firstWait<<min(attempt, 6), most)
	select {
	case <-ctx.Done():
	case <-time.After(longest/2 + rand.N(longest/2)):
	}
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

type fields map[string]any

var showing sync.Mutex

func show(values fields) {
	line, err := json.Marshal(values)
	if err != nil {
		panic(err) // Only numbers and strings are shown.
	}
	showing.Lock()
	defer showing.Unlock()
	fmt.Println(string(line))
}

func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "supervisor:", err)
	os.Exit(code)
}
