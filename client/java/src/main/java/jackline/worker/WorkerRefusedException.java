package jackline.worker;

import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The server refuses the worker, and trying again does not help. The message names the reason and each field. */
public final class WorkerRefusedException extends Exception {
  private static final long serialVersionUID = 1;

  private final Status.Code code;
  private final String reason;
  private final transient Map<String, String> metadata;
  private final transient List<String> fields;

  WorkerRefusedException(Status status, String reason, Map<String, String> metadata, List<String> fields) {
    super(words(status, reason, fields));
    this.code = status.getCode();
    this.reason = reason;
    this.metadata = Map.copyOf(metadata);
    this.fields = List.copyOf(fields);
  }

  /** The status of the stream. */
  public Status.Code code() {
    return code;
  }

  /** The server's reason, of proto/jackline/v1/error_reason.proto. Empty: it gave none. */
  public String reason() {
    return reason;
  }

  /** What goes with the reason. */
  public Map<String, String> metadata() {
    return metadata;
  }

  /** What was refused, as {@code path: why}. */
  public List<String> fields() {
    return fields;
  }

  private static String words(Status status, String reason, List<String> fields) {
    List<String> parts = new ArrayList<>();
    parts.add("jackline refuses the worker: " + status.getCode() + (reason.isEmpty() ? "" : ", " + reason));
    parts.add(String.valueOf(status.getDescription()));
    parts.addAll(fields);
    return String.join("; ", parts);
  }
}
