package worker

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "jackline/client/go/jacklinev1"
)

const longestMessage = 2000 // Characters; the server uses no more.

// Failure is how a tool says that it failed, and what that means for another attempt. Message is read by a model: it
// holds no secret. Make it with Failed, Transient or Uncertain; it may be wrapped.
type Failure struct {
	// Message says why.
	Message string

	kind       pb.WorkerErrorKind
	retryAfter time.Duration
}

// Error is the message.
func (f *Failure) Error() string { return f.Message }

// Failed says that the tool did not do what it was asked for, and would not the next time: a permanent failure.
func Failed(message string) *Failure {
	return &Failure{Message: message, kind: pb.WorkerErrorKind_WORKER_ERROR_KIND_FAILED}
}

// Transient says that the tool did not do it, and that another attempt may succeed, not before retryAfter; 0 leaves the
// waiting to the workflow.
func Transient(message string, retryAfter time.Duration) *Failure {
	return &Failure{Message: message, kind: pb.WorkerErrorKind_WORKER_ERROR_KIND_TRANSIENT, retryAfter: retryAfter}
}

// Uncertain says that nobody knows whether the tool did it: of a Write, the call's outcome is unknown. Of another, the
// same as Transient.
func Uncertain(message string) *Failure {
	return &Failure{Message: message, kind: pb.WorkerErrorKind_WORKER_ERROR_KIND_UNCERTAIN}
}

func cancelled(why string) *Failure {
	return &Failure{Message: "stopped: " + why, kind: pb.WorkerErrorKind_WORKER_ERROR_KIND_CANCELLED}
}

func notStarted(why string) *Failure {
	return &Failure{Message: why, kind: pb.WorkerErrorKind_WORKER_ERROR_KIND_NOT_STARTED}
}

func (f *Failure) message(most int) *pb.WorkerError {
	message := &pb.WorkerError{Kind: f.kind, Message: shortened(f.Message, most)}
	if f.retryAfter > 0 {
		message.RetryAfter = durationpb.New(f.retryAfter)
	}
	return message
}

// shortened cuts a text at a character's end, to as many bytes and to the characters that the server uses.
func shortened(text string, bytes int) string {
	count := 0
	for index, char := range text {
		if count == longestMessage || index+len(string(char)) > bytes {
			return text[:index]
		}
		count++
	}
	return text
}

// RefusedError says that the server refuses the worker, and that trying again does not help.
type RefusedError struct {
	// Code is the status of the stream.
	Code codes.Code
	// Reason is the server's, of proto/jackline/v1/error_reason.proto. Empty: it gave none.
	Reason string
	// Metadata goes with the reason.
	Metadata map[string]string
	// Message is for people.
	Message string
	// Fields are those that were refused, as `path: why`.
	Fields []string
}

// Error names the code, the reason, and each field.
func (e *RefusedError) Error() string {
	parts := []string{"jackline refuses the worker: " + code.Code(e.Code).String()}
	if e.Reason != "" {
		parts[0] += ", " + e.Reason
	}
	return strings.Join(append(append(parts, e.Message), e.Fields...), "; ")
}

// ending is how a stream ended, and what that means.
type ending struct {
	err       error
	refused   *RefusedError // Trying again does not help.
	taken     bool          // Another stream has resumed the session.
	notBefore time.Duration
}

// read tells what the end of a stream means.
func read(err error) ending {
	answer := status.Convert(err)
	refused := &RefusedError{Code: answer.Code(), Message: answer.Message()}
	found := ending{err: err}
	for _, detail := range answer.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == "jackline" {
				refused.Reason, refused.Metadata = detail.GetReason(), detail.GetMetadata()
			}
		case *errdetails.BadRequest:
			for _, field := range detail.GetFieldViolations() {
				refused.Fields = append(refused.Fields, fmt.Sprintf("%s: %s", field.GetField(), field.GetDescription()))
			}
		case *errdetails.RetryInfo:
			found.notBefore = detail.GetRetryDelay().AsDuration()
		}
	}
	switch answer.Code() {
	case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled, codes.Unknown,
		codes.Internal:
	default:
		found.refused = refused
	}
	found.taken = answer.Code() == codes.Aborted
	return found
}
