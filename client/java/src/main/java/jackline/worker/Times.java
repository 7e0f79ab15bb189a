package jackline.worker;

import com.google.protobuf.Duration;

/** Durations of the contract and of Java. */
final class Times {
  private Times() {}

  static long millis(Duration duration) {
    return duration.getSeconds() * 1000 + duration.getNanos() / 1_000_000;
  }

  static Duration duration(java.time.Duration duration) {
    return Duration.newBuilder().setSeconds(duration.getSeconds()).setNanos(duration.getNano()).build();
  }
}
