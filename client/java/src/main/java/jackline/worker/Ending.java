package jackline.worker;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * How a stream ended, and what that means.
 *
 * @param why in words
 * @param refused trying again does not help; null if it may
 * @param taken another stream has resumed the session
 * @param notBeforeMs how long the server wants to be left alone
 */
record Ending(String why, WorkerRefusedException refused, boolean taken, long notBeforeMs) {
  private static final Set<Status.Code> PASSING = EnumSet.of(
      Status.Code.UNAVAILABLE,
      Status.Code.DEADLINE_EXCEEDED,
      Status.Code.RESOURCE_EXHAUSTED,
      Status.Code.CANCELLED,
      Status.Code.UNKNOWN,
      Status.Code.INTERNAL);

  static Ending of(String why) {
    return new Ending(why, null, false, 0);
  }

  static Ending of(Throwable error) {
    Status status = Status.fromThrowable(error);
    ErrorInfo info = details(error, ErrorInfo.class).stream()
        .filter(one -> one.getDomain().equals("jackline"))
        .findFirst()
        .orElse(ErrorInfo.getDefaultInstance());
    List<String> fields = new ArrayList<>();
    for (BadRequest bad : details(error, BadRequest.class)) {
      bad.getFieldViolationsList().forEach(one -> fields.add(one.getField() + ": " + one.getDescription()));
    }
    long notBeforeMs = 0;
    for (RetryInfo retry : details(error, RetryInfo.class)) {
      notBeforeMs = Math.max(notBeforeMs, Times.millis(retry.getRetryDelay()));
    }
    Map<String, String> metadata = info.getMetadataMap();
    WorkerRefusedException refused = PASSING.contains(status.getCode())
        ? null
        : new WorkerRefusedException(status, info.getReason(), metadata, fields);
    return new Ending(status.toString(), refused, status.getCode() == Status.Code.ABORTED, notBeforeMs);
  }

  private static <T extends Message> List<T> details(Throwable error, Class<T> kind) {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    List<T> found = new ArrayList<>();
    for (Any detail : status == null ? List.<Any>of() : status.getDetailsList()) {
      try {
        if (detail.is(kind)) {
          found.add(detail.unpack(kind));
        }
      } catch (InvalidProtocolBufferException unreadable) {
        continue; // Details that can't be read are as good as none.
      }
    }
    return found;
  }
}
