package jackline.worker;

import java.util.Objects;

/**
 * What a tool returned.
 *
 * @param value a JSON document, or a text
 * @param isJson which of both
 */
public record Result(String value, boolean isJson) {
  /** Neither is null. */
  public Result {
    Objects.requireNonNull(value, "value");
  }

  /** It returned this JSON document. */
  public static Result json(String document) {
    return new Result(document, true);
  }

  /** It returned this text. */
  public static Result text(String text) {
    return new Result(text, false);
  }
}
