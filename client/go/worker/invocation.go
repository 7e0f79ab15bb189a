package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	pb "jackline/client/go/jacklinev1"
)

const timeOver = "its time was over"

var reasons = map[pb.CancelInvocationReason]string{
	pb.CancelInvocationReason_CANCEL_INVOCATION_REASON_UNSPECIFIED: "nobody waits for it",
	pb.CancelInvocationReason_CANCEL_INVOCATION_REASON_ABORTED:     "the run was aborted, or has ended",
	pb.CancelInvocationReason_CANCEL_INVOCATION_REASON_TIMED_OUT:   timeOver,
	pb.CancelInvocationReason_CANCEL_INVOCATION_REASON_UNKNOWN:     "the server has given it up",
}

// invocation is a call from when it was invoked until its result is acknowledged. Its result and its progress are
// guarded by the session's mutex.
type invocation struct {
	session *session
	tool    *served // Nil: the worker has no such tool.
	invoke  *pb.InvokeTool
	call    Call
	// ctx is done upon a cancel and when the time is over, whether the handler can be told so or not.
	ctx    context.Context
	cancel context.CancelCauseFunc
	free   context.CancelFunc

	result     *pb.InvocationResult // Nil while it runs.
	progress   *pb.InvocationProgress
	progressAt time.Time
}

func (s *session) begin(invoke *pb.InvokeTool) *invocation {
	deadline := time.Now().Add(invoke.GetTimeout().AsDuration())
	call := &invocation{session: s, tool: s.tools[invoke.GetTool()], invoke: invoke}
	var ctx context.Context
	ctx, call.free = context.WithDeadlineCause(s.base, deadline, errors.New(timeOver))
	call.ctx, call.cancel = context.WithCancelCause(ctx)
	call.call = Call{
		Tool:        invoke.GetTool(),
		Arguments:   invoke.GetArgumentsJson(),
		CallKey:     invoke.GetCallKey(),
		Attempt:     int(invoke.GetAttempt()),
		RunID:       invoke.GetRunId(),
		StepID:      invoke.GetStepId(),
		Traceparent: invoke.GetTraceparent(),
		Deadline:    deadline,
		report:      call.report,
	}
	if invoke.GetSubject() != nil {
		call.call.Subject = invoke.GetSubject().AsMap()
	}
	return call
}

func (i *invocation) stop(why string) { i.cancel(errors.New(why)) }

// run answers the invocation, whatever happens.
func (i *invocation) run() {
	defer i.free()
	if i.tool == nil {
		i.fail(notStarted(fmt.Sprintf("this worker has no tool %q", i.invoke.GetTool())))
		return
	}
	// The server sends no more than there are places for. One may still be taken by a call of a session that was given up.
	for _, places := range []chan struct{}{i.tool.places, i.session.places} {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-i.ctx.Done():
			i.fail(notStarted(context.Cause(i.ctx).Error()))
			return
		}
	}
	value, err := i.handled()
	if err == nil {
		i.returned(value)
		return
	}
	var failure *Failure
	switch {
	case errors.As(err, &failure):
	case i.tool.Cancellable && i.ctx.Err() != nil:
		failure = cancelled(context.Cause(i.ctx).Error())
	default:
		i.session.config.Logger.Error("jackline: a tool failed unexpectedly",
			"tool", i.tool.Name, "call_key", i.call.CallKey, "run_id", i.call.RunID, "error", err)
		failure = Uncertain(fmt.Sprintf("the tool failed unexpectedly (%T)", err))
	}
	i.fail(failure)
}

// handled runs the handler; a panic of it is an error.
func (i *invocation) handled() (value any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			value, err = nil, panicError{what: panicked, stack: debug.Stack()}
		}
	}()
	ctx := i.ctx
	if !i.tool.Cancellable {
		ctx = i.session.base
	}
	return i.tool.Handle(ctx, &i.call)
}

// panicError is what a handler panicked with.
type panicError struct {
	what  any
	stack []byte
}

func (p panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.what, p.stack) }

func (i *invocation) returned(value any) {
	text, isText := value.(string)
	if isText && i.tool.Output == nil {
		if i.fits(len(text)) {
			i.finish(&pb.InvocationResult{Outcome: &pb.InvocationResult_Text{Text: text}})
		}
		return
	}
	data, err := encoded(value)
	if err != nil {
		i.session.config.Logger.Error("jackline: what a tool returned can't be sent", "tool", i.tool.Name, "error", err)
		i.finish(&pb.InvocationResult{Outcome: &pb.InvocationResult_Text{
			Text: "The tool has done its work, but what it returned can't be written as JSON.",
		}})
	} else if i.fits(len(data)) {
		i.finish(&pb.InvocationResult{Outcome: &pb.InvocationResult_Json{Json: data}})
	}
}

// fits answers in the place of a result that is too large.
func (i *invocation) fits(size int) bool {
	largest := i.session.largestResult()
	if size <= largest {
		return true
	}
	i.finish(&pb.InvocationResult{Outcome: &pb.InvocationResult_Text{Text: shortened(fmt.Sprintf(
		"The tool has done its work, but its result is too large: %d bytes, and %d are allowed.", size, largest), largest)}})
	return false
}

func (i *invocation) fail(failure *Failure) {
	message := failure.message(i.session.largestResult())
	i.finish(&pb.InvocationResult{Outcome: &pb.InvocationResult_Error{Error: message}})
}

func (s *session) largestResult() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.largest
}

// finish hands the result over, unless the session has given the invocation up.
func (i *invocation) finish(result *pb.InvocationResult) {
	s := i.session
	s.mu.Lock()
	defer s.mu.Unlock()
	result.Invocation = i.invoke.GetInvocation()
	if s.calls[result.Invocation] != i {
		return
	}
	i.result, i.progress = result, nil
	if s.outbox != nil {
		delete(s.outbox.moved, i)
		s.outbox.results = append(s.outbox.results, i)
		s.outbox.ring()
	}
}

// report keeps the newest progress for when it may be sent.
func (i *invocation) report(text string, fraction *float64) {
	s := i.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.result != nil || s.calls[i.invoke.GetInvocation()] != i {
		return
	}
	i.progress = &pb.InvocationProgress{Invocation: i.invoke.GetInvocation(), Text: text, Fraction: fraction}
	if s.outbox != nil {
		s.outbox.moved[i] = struct{}{}
		s.outbox.ring()
	}
}
