package jackline.worker;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonIOException;
import com.google.gson.JsonSyntaxException;
import com.google.gson.Strictness;
import com.google.gson.GsonBuilder;
import com.google.protobuf.ByteString;
import jackline.v1.CancelInvocationReason;
import jackline.v1.InvocationProgress;
import jackline.v1.InvocationResult;
import jackline.v1.InvokeTool;
import jackline.v1.WorkerError;
import jackline.v1.WorkerErrorKind;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.Semaphore;

/** A call from when it was invoked until its result is acknowledged. It runs on a thread of its own. */
final class Invocation implements Runnable {
  private static final int LONGEST_MESSAGE = 2000; // Characters; the server uses no more.
  private static final String TIME_OVER = "its time was over";
  private static final Gson STRICT = new GsonBuilder().setStrictness(Strictness.STRICT).create();
  private static final System.Logger LOG = System.getLogger("jackline.worker");

  final InvokeTool invoke;

  // Of the session's loop alone.
  InvocationResult result; // Null while it runs.
  InvocationProgress progress; // The newest that was not sent.
  long progressAtMs;

  private final Session session;
  private final Session.Served served; // Null: the worker has no such tool.
  private final Instant deadline;

  // Guarded by this.
  private Thread interruptible;
  private String stopped;

  Invocation(Session session, InvokeTool invoke, Session.Served served) {
    this.session = session;
    this.invoke = invoke;
    this.served = served;
    this.deadline = Instant.now().plusMillis(timeoutMs());
  }

  static String words(CancelInvocationReason reason) {
    return switch (reason) {
      case CANCEL_INVOCATION_REASON_ABORTED -> "the run was aborted, or has ended";
      case CANCEL_INVOCATION_REASON_TIMED_OUT -> TIME_OVER;
      case CANCEL_INVOCATION_REASON_UNKNOWN -> "the server has given it up";
      default -> "nobody waits for it";
    };
  }

  long timeoutMs() {
    return Times.millis(invoke.getTimeout());
  }

  void timeOver() {
    stop(TIME_OVER);
  }

  synchronized void stop(String why) {
    if (stopped == null) {
      stopped = why;
      if (interruptible != null) {
        interruptible.interrupt();
      }
    }
  }

  synchronized boolean isCancelled() {
    return stopped != null && served.tool().cancellable();
  }

  void report(String text, double fraction) {
    InvocationProgress.Builder report =
        InvocationProgress.newBuilder().setInvocation(invoke.getInvocation()).setText(text);
    session.moved(this, (Double.isNaN(fraction) ? report : report.setFraction(fraction)).build());
  }

  /** Answers the invocation, whatever happens. */
  @Override
  public void run() {
    if (served == null) {
      finish(failure(WorkerErrorKind.WORKER_ERROR_KIND_NOT_STARTED, "this worker has no tool " + invoke.getTool()));
      return;
    }
    // The server sends no more than there are places for. One may still be taken by a call of a session that was given up.
    Semaphore[] wanted = {served.places(), session.places()};
    int taken = 0;
    try {
      begin(true);
      for (Semaphore places : wanted) {
        places.acquire();
        taken++;
      }
      end();
      finish(handled());
    } catch (InterruptedException nobodyWaits) {
      end();
      finish(failure(WorkerErrorKind.WORKER_ERROR_KIND_NOT_STARTED, why()));
    } finally {
      for (int index = 0; index < taken; index++) {
        wanted[index].release();
      }
    }
  }

  private InvocationResult handled() {
    Tool tool = served.tool();
    begin(tool.cancellable());
    try {
      Result returned = tool.handler().handle(new Call(this, invoke, deadline));
      end();
      return returned(returned);
    } catch (ToolException failed) {
      end();
      WorkerError error = error(failed.kind(), failed.getMessage(), failed.retryAfter());
      return InvocationResult.newBuilder().setError(error).build();
    } catch (Throwable unplanned) { // Whatever it is, the call is answered.
      end();
      if (isCancelled()) {
        return failure(WorkerErrorKind.WORKER_ERROR_KIND_CANCELLED, "stopped: " + why());
      }
      String where = "tool " + tool.name() + ", run " + invoke.getRunId() + ", call key " + invoke.getCallKey();
      LOG.log(System.Logger.Level.ERROR, "a tool failed unexpectedly (" + where + ")", unplanned);
      return failure(WorkerErrorKind.WORKER_ERROR_KIND_UNCERTAIN,
          "the tool failed unexpectedly (" + unplanned.getClass().getSimpleName() + ")");
    }
  }

  /** From here on a stop interrupts this thread, if it may. */
  private synchronized void begin(boolean mayInterrupt) {
    if (mayInterrupt) {
      interruptible = Thread.currentThread();
      if (stopped != null) {
        interruptible.interrupt();
      }
    }
  }

  /** From here on nothing interrupts this thread. */
  private synchronized void end() {
    interruptible = null;
    Thread.interrupted(); // The thread is used again.
  }

  private synchronized String why() {
    return stopped;
  }

  private InvocationResult returned(Result returned) {
    InvocationResult.Builder found = InvocationResult.newBuilder();
    byte[] data = returned.value().getBytes(StandardCharsets.UTF_8);
    if (data.length > session.largest()) {
      return found.setText(shortened("The tool has done its work, but its result is too large: " + data.length
          + " bytes, and " + session.largest() + " are allowed.")).build();
    }
    if (!returned.isJson()) {
      return found.setText(returned.value()).build();
    }
    try {
      STRICT.fromJson(returned.value(), JsonElement.class);
      return found.setJson(ByteString.copyFrom(data)).build();
    } catch (JsonSyntaxException | JsonIOException unreadable) {
      LOG.log(System.Logger.Level.ERROR, "what tool " + invoke.getTool() + " returned is no JSON", unreadable);
      return found.setText("The tool has done its work, but what it returned is no JSON.").build();
    }
  }

  private InvocationResult failure(WorkerErrorKind kind, String message) {
    return InvocationResult.newBuilder().setError(error(kind, message, Duration.ZERO)).build();
  }

  private WorkerError error(WorkerErrorKind kind, String message, Duration retryAfter) {
    WorkerError.Builder error = WorkerError.newBuilder().setKind(kind).setMessage(shortened(String.valueOf(message)));
    return (retryAfter.isZero() ? error : error.setRetryAfter(Times.duration(retryAfter))).build();
  }

  private void finish(InvocationResult outcome) {
    session.finished(this, outcome.toBuilder().setInvocation(invoke.getInvocation()).build());
  }

  /** Cuts a text at a character's end, to as many bytes and to the characters that the server uses. */
  private String shortened(String text) {
    StringBuilder found = new StringBuilder();
    long size = 0;
    int count = 0;
    for (int index = 0; index < text.length() && count < LONGEST_MESSAGE; count++) {
      int point = text.codePointAt(index);
      String character = Character.toString(point);
      size += character.getBytes(StandardCharsets.UTF_8).length;
      if (size > session.largest()) {
        break;
      }
      found.append(character);
      index += character.length();
    }
    return found.toString();
  }
}
