package javax.annotation;

/** A stub of the annotation that every generated class carries; Java 11 has none any more. */
public @interface Generated {
  String[] value();

  String date() default "";

  String comments() default "";
}
