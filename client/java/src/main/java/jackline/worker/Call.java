package jackline.worker;

import com.google.protobuf.Struct;
import jackline.v1.InvokeTool;
import java.time.Instant;
import java.util.Optional;

/** One attempt at a tool call. Its methods may be called from any thread. */
public final class Call {
  private final Invocation invocation;
  private final InvokeTool invoke;
  private final Instant deadline;

  Call(Invocation invocation, InvokeTool invoke, Instant deadline) {
    this.invocation = invocation;
    this.invoke = invoke;
    this.deadline = deadline;
  }

  /** The name of the tool. */
  public String tool() {
    return invoke.getTool();
  }

  /** The arguments: a JSON object that fits the tool's parameters. */
  public String arguments() {
    return invoke.getArgumentsJson().toStringUtf8();
  }

  /**
   * The idempotency key: the same for every attempt at this call, and for no other call. What may be done only once is to
   * be keyed by it.
   */
  public String callKey() {
    return invoke.getCallKey();
  }

  /** The attempt, from 1. */
  public int attempt() {
    return invoke.getAttempt();
  }

  /** The run that calls. */
  public String runId() {
    return invoke.getRunId();
  }

  /** The step of its workflow that stands for the tool. */
  public String stepId() {
    return invoke.getStepId();
  }

  /** On whose behalf the run works, as given when it was started. Empty: nobody was named. */
  public Optional<Struct> subject() {
    return invoke.hasSubject() ? Optional.of(invoke.getSubject()) : Optional.empty();
  }

  /** The W3C trace context. */
  public String traceparent() {
    return invoke.getTraceparent();
  }

  /** When nobody waits any more. */
  public Instant deadline() {
    return deadline;
  }

  /** True once nobody waits any more or the time is over, if the tool is cancellable. Its thread is interrupted then. */
  public boolean isCancelled() {
    return invocation.isCancelled();
  }

  /**
   * Says what the call is doing, to whoever watches the run. Only the newest counts; about ten a second are sent.
   */
  public void progress(String text) {
    invocation.report(text, Double.NaN);
  }

  /** The same, and how much of it is done, from 0 to 1. */
  public void progress(String text, double fraction) {
    invocation.report(text, fraction);
  }
}
