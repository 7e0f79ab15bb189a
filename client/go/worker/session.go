package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "jackline/client/go/jacklinev1"
)

const (
	welcomeWithin   = 10 * time.Second
	firstWait       = 200 * time.Millisecond
	longestWait     = 10 * time.Second
	silentBeats     = 3
	progressEvery   = 100 * time.Millisecond
	largestReceived = 64 << 20
)

// session is one session with the server, over as many streams as it takes.
type session struct {
	config Config
	base   context.Context // Never done; what handlers derive theirs from.
	tools  map[string]*served
	places chan struct{}
	left   chan struct{} // Closed when the worker is leaving.

	mu         sync.Mutex
	token      string
	grace      time.Duration
	largest    int
	leaving    bool
	unanswered bool                   // A register has had no answer: its stream may still come to live at the server.
	calls      map[string]*invocation // Those without an acknowledgement, running or finished.
	outbox     *outbox                // Of the stream that was welcomed; nil between streams.
}

// outbox is what one stream has to send. It is guarded by the session's mutex.
type outbox struct {
	heartbeat time.Duration
	lastSent  time.Time
	wake      chan struct{}
	results   []*invocation
	moved     map[*invocation]struct{} // Those with progress to send.
	drainSent bool
	drained   bool // The server has said that it invokes nothing more.
	closed    bool // Everything is acknowledged, and the stream half-closed.
}

func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// leave begins the drain.
func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	s.config.Logger.Info("jackline: the worker takes no more calls and leaves", "pool", s.config.Pool, "open", len(s.calls))
	close(s.left)
	if s.outbox != nil {
		s.outbox.ring()
	}
}

// run connects until the worker has left, or is refused.
func (s *session) run() error {
	wait := firstWait
	var brokenAt time.Time
	for {
		s.mu.Lock()
		leaving, open, token, grace := s.leaving, len(s.calls), s.token, s.grace
		s.mu.Unlock()
		if leaving && token == "" {
			return nil
		}
		if leaving && !brokenAt.IsZero() && time.Since(brokenAt) > grace {
			s.giveUp("the server can't be reached")
			if open == 0 {
				return nil
			}
			return fmt.Errorf("worker: left with %d calls that the server has no result of: it could not be reached", open)
		}
		outbox, found := s.connect()
		if outbox != nil {
			wait = firstWait
			brokenAt = time.Now()
			if outbox.closed {
				if s.parted() {
					return nil
				}
				s.rest(rand.N(firstWait)) // The server was leaving; its other workers come back as well.
				continue
			}
		}
		if found.refused != nil && !(found.taken && s.lateRegister()) {
			s.giveUp("the server refuses the worker")
			return found.refused
		}
		pause := max(rand.N(wait), found.notBefore)
		wait = min(2*wait, longestWait)
		s.config.Logger.Warn("jackline: the stream of the worker broke",
			"pool", s.config.Pool, "error", found.err, "again_in", pause)
		s.rest(pause)
	}
}

// rest waits, but not longer than until the worker begins to leave.
func (s *session) rest(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	left := s.left
	select {
	case <-left:
		left = nil // It has been leaving for long: each attempt waits.
	default:
	}
	select {
	case <-timer.C:
	case <-left:
	}
}

// parted notes that a stream was closed in good order, which ends the session; true if the worker has left by it.
func (s *session) parted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
	return s.leaving
}

// lateRegister is true if a stream of this worker may have resumed the session late; it can have done so once.
func (s *session) lateRegister() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.unanswered
	s.unanswered = false
	return late
}

// giveUp cancels what runs and drops what is finished.
func (s *session) giveUp(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(why)
}

func (s *session) forget(why string) {
	for id, call := range s.calls {
		call.stop(why)
		delete(s.calls, id)
	}
}

// connect holds one stream from its beginning to its end. The outbox is nil if it was never welcomed.
func (s *session) connect() (*outbox, ending) {
	ctx, cancel := context.WithCancelCause(s.base)
	defer cancel(nil)
	watchdog := time.AfterFunc(welcomeWithin, func() { cancel(errors.New("the server does not answer")) })
	defer watchdog.Stop()
	failed := func(err error) ending {
		if errors.Is(err, io.EOF) {
			return ending{err: errors.New("the server ended the stream")}
		}
		found := read(err)
		if cause := context.Cause(ctx); cause != nil {
			found.err = cause
		}
		return found
	}
	// Each stream has a connection of its own: one that has gone silent would take the next stream as well.
	connection, err := grpc.NewClient(s.config.Target, s.config.DialOptions...)
	if err != nil {
		return nil, ending{err: err, refused: &RefusedError{Code: codes.InvalidArgument, Message: err.Error()}}
	}
	defer connection.Close()
	wire, err := pb.NewToolWorkerServiceClient(connection).Connect(ctx, grpc.MaxCallRecvMsgSize(largestReceived))
	if err != nil {
		return nil, failed(err)
	}
	register := s.register()
	if err := wire.Send(&pb.ConnectRequest{Message: &pb.ConnectRequest_Register{Register: register}}); err != nil {
		_, err = wire.Recv() // Which has the reason.
		return nil, failed(err)
	}
	first, err := wire.Recv()
	if err != nil {
		return nil, failed(err)
	}
	if first.GetWelcome() == nil {
		return nil, ending{err: fmt.Errorf("the server's first message is no welcome: %v", first)}
	}
	outbox := s.welcomed(first.GetWelcome(), register.GetDraining())
	silence := silentBeats * outbox.heartbeat
	watchdog.Stop()
	watchdog = time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing was heard of the server for %v", silence)) })
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write(ctx, wire, outbox)
	}()
	for err == nil {
		var message *pb.ConnectResponse
		if message, err = wire.Recv(); err == nil {
			watchdog.Reset(silence)
			s.take(message, outbox)
		}
	}
	found := failed(err)
	cancel(nil)
	<-written
	s.mu.Lock()
	s.outbox = nil
	s.mu.Unlock()
	return outbox, found
}

func (s *session) register() *pb.RegisterWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	message := &pb.RegisterWorker{
		Pool:        s.config.Pool,
		Worker:      s.config.Name,
		Session:     s.token,
		MaxParallel: proto.Uint32(uint32(s.config.MaxParallel)),
		Draining:    s.leaving,
	}
	for index := range s.config.Tools {
		message.Tools = append(message.Tools, s.config.Tools[index].registered())
	}
	for id := range s.calls {
		message.Invocations = append(message.Invocations, id)
	}
	s.unanswered = true
	return message
}

// welcomed takes the answer to register: the session goes on, or a new one begins.
func (s *session) welcomed(welcome *pb.WorkerWelcome, draining bool) *outbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !welcome.GetResumed() {
		s.forget("the server has given the worker up")
	}
	s.unanswered = false
	s.token = welcome.GetSession()
	s.grace = welcome.GetResumeGrace().AsDuration()
	s.largest = int(welcome.GetMaxResultBytes())
	if welcome.GetResumed() {
		s.config.Logger.Info("jackline: the worker is back", "pool", s.config.Pool, "worker", s.config.Name)
	} else {
		s.config.Logger.Info("jackline: the worker serves", "pool", s.config.Pool, "worker", s.config.Name)
	}
	s.outbox = &outbox{
		heartbeat: welcome.GetHeartbeat().AsDuration(),
		lastSent:  time.Now(),
		wake:      make(chan struct{}, 1),
		moved:     map[*invocation]struct{}{},
		drainSent: draining,
	}
	for _, call := range s.calls {
		if call.result != nil {
			s.outbox.results = append(s.outbox.results, call)
		} else if call.progress != nil {
			s.outbox.moved[call] = struct{}{}
		}
	}
	return s.outbox
}

// write sends what there is to send until the stream ends or nothing more will come.
func (s *session) write(ctx context.Context, wire pb.ToolWorkerService_ConnectClient, outbox *outbox) {
	for {
		message, closed, pause := s.next(outbox, time.Now())
		switch {
		case message != nil:
			if wire.Send(message) != nil {
				return // The reader has the reason.
			}
		case closed:
			_ = wire.CloseSend() // It returns no error.
			return
		default:
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-outbox.wake:
			case <-timer.C:
			}
			timer.Stop()
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// next is what to send now; or that the stream is to be half-closed; or how long there will be nothing to send.
func (s *session) next(outbox *outbox, now time.Time) (message *pb.ConnectRequest, closed bool, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause = outbox.heartbeat - now.Sub(outbox.lastSent)
	switch {
	case s.leaving && !outbox.drainSent:
		outbox.drainSent = true
		message = &pb.ConnectRequest{Message: &pb.ConnectRequest_Drain{Drain: &pb.WorkerDrain{}}}
	case len(outbox.results) > 0:
		message = &pb.ConnectRequest{Message: &pb.ConnectRequest_Result{Result: outbox.results[0].result}}
		outbox.results = outbox.results[1:]
	case outbox.drained && len(s.calls) == 0:
		outbox.closed = true
		return nil, true, 0
	default:
		var due time.Duration
		if message, due = outbox.progress(now); message == nil {
			pause = min(pause, due)
		}
		if message == nil && pause <= 0 {
			message = &pb.ConnectRequest{Message: &pb.ConnectRequest_Heartbeat{Heartbeat: &pb.WorkerHeartbeat{}}}
		}
	}
	if message != nil {
		outbox.lastSent = now
	}
	return message, false, pause
}

// progress is a report that is due; or how long there will be none.
func (o *outbox) progress(now time.Time) (*pb.ConnectRequest, time.Duration) {
	soonest := o.heartbeat
	for call := range o.moved {
		due := call.progressAt.Add(progressEvery).Sub(now)
		if due > 0 {
			soonest = min(soonest, due)
			continue
		}
		delete(o.moved, call)
		message := &pb.ConnectRequest{Message: &pb.ConnectRequest_Progress{Progress: call.progress}}
		call.progress, call.progressAt = nil, now
		return message, 0
	}
	return nil, soonest
}

// take does what the server says.
func (s *session) take(message *pb.ConnectResponse, outbox *outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch message := message.GetMessage().(type) {
	case *pb.ConnectResponse_Invoke:
		if id := message.Invoke.GetInvocation(); s.calls[id] == nil {
			call := s.begin(message.Invoke)
			s.calls[id] = call
			go call.run()
		}
	case *pb.ConnectResponse_Cancel:
		if call := s.calls[message.Cancel.GetInvocation()]; call != nil {
			call.stop(reasons[message.Cancel.GetReason()])
		}
	case *pb.ConnectResponse_Acknowledged:
		delete(s.calls, message.Acknowledged.GetInvocation())
		outbox.ring()
	case *pb.ConnectResponse_Drain:
		outbox.drained = true
		outbox.ring()
	}
}
