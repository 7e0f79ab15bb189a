// Package worker serves tools to the runs of a Jackline server, from a process of yours and over a connection that your
// process opens.
//
//	err := worker.Serve(ctx, worker.Config{
//		Target:      "jackline.example:443",
//		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(…), grpc.WithPerRPCCredentials(…)},
//		Pool:        "support",
//		Tools: []worker.Tool{{
//			Name:        "seats_left",
//			Description: "How many seats a flight has left.",
//			Parameters:  json.RawMessage(`{"type": "object", "properties": {"flight": {"type": "string"}}}`),
//			Effect:      worker.Read,
//			Cancellable: true,
//			Handle:      worker.JSON(seatsLeft),
//		}},
//	})
//
// Serve keeps the connection up: it answers heartbeats, comes back after a break with the same session, and delivers a
// result that was finished meanwhile, once. The pool has to be named in the server's config, and the token needs the
// scope `tools:serve`. The rules that it follows stand in proto/jackline/v1/tool_worker.proto.
package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "jackline/client/go/jacklinev1"
)

// Effect says what running a tool may change, and so whether a call whose answer was lost may be made again.
type Effect = pb.Effect

const (
	// Write changes something each time it runs: never repeated where it may have begun. What an unset effect means.
	Write = pb.Effect_EFFECT_WRITE
	// Idempotent may be repeated with the same Call.CallKey, and counts once.
	Idempotent = pb.Effect_EFFECT_IDEMPOTENT
	// Read changes nothing.
	Read = pb.Effect_EFFECT_READ
)

const defaultParallel = 8

// Handler runs a tool. A string that it returns is sent as text, unless the tool has an Output schema; anything else as
// JSON. It fails with Failed, Transient or Uncertain; any other error, and a panic, count as Uncertain, and only its
// type is sent: its text is logged.
//
// Its context is done when nobody waits for the call any more or its time is over, if the tool is Cancellable. That of
// another tool is never done: such a tool runs to its end.
type Handler func(ctx context.Context, call *Call) (any, error)

// JSON makes a Handler of a function that takes the call's arguments decoded from JSON. Arguments that do not decode are
// a failure.
func JSON[Arguments, Returned any](handle func(context.Context, *Call, Arguments) (Returned, error)) Handler {
	return func(ctx context.Context, call *Call) (any, error) {
		var arguments Arguments
		if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
			return nil, Failed(fmt.Sprintf("the arguments can't be used: %v", err))
		}
		return handle(ctx, call, arguments)
	}
}

// Tool is a tool that a worker serves. Name, Description, Parameters and Handle are required.
type Tool struct {
	// Name is its name in the pool: a letter, then letters, digits, `_`, `-` or `.`, 64 at most.
	Name string
	// Description says to a model what it does.
	Description string
	// Parameters is the JSON Schema of its arguments, of type `object`.
	Parameters json.RawMessage
	// Output is the JSON Schema of what it returns. A result that does not fit it is a failure. Nil: anything.
	Output json.RawMessage
	// Effect is what running it may change. Unset: Write.
	Effect Effect
	// MaxParallel is how many calls of it run at a time. 0: as many as the worker serves.
	MaxParallel int
	// Cancellable says that it ends soon after its context is done. Its context is never done otherwise.
	Cancellable bool
	// Handle runs it. Handlers run at the same time as others.
	Handle Handler
}

// Config says what a worker serves, and where. Target, DialOptions, Pool and Tools are required.
type Config struct {
	// Target is the server, as grpc.NewClient takes it.
	Target string
	// DialOptions bring the transport credentials and the token. A connection is made for each stream.
	DialOptions []grpc.DialOption
	// Pool is the pool of the operator's config.
	Pool string
	// Name is what people know the worker by; it need not be unique. Empty: the host and the process.
	Name string
	// Tools are what it serves, each name once.
	Tools []Tool
	// MaxParallel is how many calls run at a time, of all tools together. 0: 8.
	MaxParallel int
	// Logger is told when the worker serves, breaks off, comes back and leaves, and of errors that are not sent.
	// Nil: slog.Default().
	Logger *slog.Logger
}

// Call is one attempt at a tool call.
type Call struct {
	// Tool is the name of the tool.
	Tool string
	// Arguments is a JSON object that fits the tool's parameters.
	Arguments json.RawMessage
	// CallKey is the idempotency key: the same for every attempt at this call, and for no other call. What may be done
	// only once is to be keyed by it.
	CallKey string
	// Attempt counts from 1.
	Attempt int
	// RunID is the run that calls, and StepID the step of its workflow that stands for the tool.
	RunID, StepID string
	// Subject is on whose behalf the run works, as given when it was started; nil if nobody was named.
	Subject map[string]any
	// Traceparent is the W3C trace context.
	Traceparent string
	// Deadline is when nobody waits any more.
	Deadline time.Time

	report func(text string, fraction *float64)
}

// Progress says what the call is doing, to whoever watches the run. Only the newest counts; about ten a second are sent.
func (c *Call) Progress(text string) { c.report(text, nil) }

// ProgressAt says what the call is doing, and how much of it is done: 0 to 1.
func (c *Call) ProgressAt(fraction float64, text string) { c.report(text, &fraction) }

// Serve serves the tools until ctx is done, and then drains: it takes no further calls, finishes those in flight, and
// returns nil when the server has every result. Signal handling is the caller's: signal.NotifyContext with SIGTERM does,
// and context.AfterFunc(ctx, stop) lets a second signal end the program at once.
//
// It connects again by itself, for as long as that may help. It returns a *RefusedError when the server refuses the
// worker, and another error when the config can't be used, or when results could not be delivered before the server had
// given the worker up. Handlers of tools that are not cancellable may then still run.
func Serve(ctx context.Context, config Config) error {
	tools, err := checked(&config)
	if err != nil {
		return err
	}
	served := &session{
		config: config,
		base:   context.WithoutCancel(ctx),
		tools:  tools,
		places: make(chan struct{}, config.MaxParallel),
		left:   make(chan struct{}),
		calls:  map[string]*invocation{},
	}
	stop := context.AfterFunc(ctx, served.leave)
	defer stop()
	return served.run()
}

// served is a tool with the places for its calls.
type served struct {
	Tool
	places chan struct{}
}

// checked fills in what the config leaves out, and returns its tools by name.
func checked(config *Config) (map[string]*served, error) {
	if config.Pool == "" {
		return nil, errors.New("worker: Config.Pool is empty: name the pool of the server's config")
	}
	if len(config.Tools) == 0 {
		return nil, errors.New("worker: Config.Tools is empty: a worker serves at least one tool")
	}
	if config.MaxParallel < 0 {
		return nil, fmt.Errorf("worker: Config.MaxParallel is %d: it has to be at least 1", config.MaxParallel)
	}
	if config.MaxParallel == 0 {
		config.MaxParallel = defaultParallel
	}
	if config.Name == "" {
		host, _ := os.Hostname() // Without one, the process alone has to do.
		config.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	tools := make(map[string]*served, len(config.Tools))
	for index, tool := range config.Tools {
		place := fmt.Sprintf("worker: Config.Tools[%d] (%q)", index, tool.Name)
		switch {
		case tools[tool.Name] != nil:
			return nil, fmt.Errorf("%s: another tool has this name", place)
		case tool.Handle == nil:
			return nil, fmt.Errorf("%s has no Handle", place)
		case !json.Valid(tool.Parameters):
			return nil, fmt.Errorf("%s: Parameters is no JSON: it is the JSON Schema of the arguments", place)
		case tool.Output != nil && !json.Valid(tool.Output):
			return nil, fmt.Errorf("%s: Output is no JSON: it is the JSON Schema of what the tool returns", place)
		case tool.MaxParallel < 0:
			return nil, fmt.Errorf("%s: MaxParallel is %d: it has to be at least 1", place, tool.MaxParallel)
		}
		most := tool.MaxParallel
		if most == 0 || most > config.MaxParallel {
			most = config.MaxParallel
		}
		tools[tool.Name] = &served{Tool: tool, places: make(chan struct{}, most)}
	}
	return tools, nil
}

// registered is the tool as the contract has it.
func (t *Tool) registered() *pb.WorkerTool {
	message := &pb.WorkerTool{
		Name:             t.Name,
		Description:      t.Description,
		ParametersJson:   t.Parameters,
		OutputSchemaJson: t.Output,
		Effect:           t.Effect,
		Cancellable:      t.Cancellable,
	}
	if t.MaxParallel > 0 {
		message.MaxParallel = proto.Uint32(uint32(t.MaxParallel))
	}
	return message
}

// encoded is a value as JSON, without the escapes that only HTML needs.
func encoded(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
