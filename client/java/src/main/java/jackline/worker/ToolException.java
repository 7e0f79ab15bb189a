package jackline.worker;

import jackline.v1.WorkerErrorKind;
import java.time.Duration;

/**
 * How a tool says that it failed, and what that means for another attempt. The message is read by a model: it holds no
 * secret.
 */
public final class ToolException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final WorkerErrorKind kind;
  private final Duration retryAfter;

  private ToolException(String message, WorkerErrorKind kind, Duration retryAfter) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter;
  }

  /** It did not do what it was asked for, and would not the next time: a permanent failure. */
  public static ToolException failed(String message) {
    return new ToolException(message, WorkerErrorKind.WORKER_ERROR_KIND_FAILED, Duration.ZERO);
  }

  /**
   * It did not do it, and another attempt may succeed.
   *
   * @param retryAfter not before so long; zero leaves the waiting to the workflow
   */
  public static ToolException transientFailure(String message, Duration retryAfter) {
    return new ToolException(message, WorkerErrorKind.WORKER_ERROR_KIND_TRANSIENT, retryAfter);
  }

  /**
   * Nobody knows whether it did it: of a tool that writes, the call's outcome is unknown. Of another, the same as a
   * transient failure.
   */
  public static ToolException uncertain(String message) {
    return new ToolException(message, WorkerErrorKind.WORKER_ERROR_KIND_UNCERTAIN, Duration.ZERO);
  }

  WorkerErrorKind kind() {
    return kind;
  }

  Duration retryAfter() {
    return retryAfter;
  }
}
