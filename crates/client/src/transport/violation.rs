//! Validation errors of inputs: what does not fit the declared parameters of a model.

use std::fmt;

/// `Display` of [`InvalidInputs`] shows at most this many violations.
const MAX_SHOWN: usize = 20;

/// Inputs that do not fit the model. Nothing was sent: no file was uploaded, no task was created.
///
/// `Display` is one line. [`violations`](Self::violations) has the violations one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidInputs {
    violations: Vec<Violation>,
    parameters: Vec<String>,
}

impl InvalidInputs {
    /// Creates the error. `parameters` are the names of all parameters that the model declares.
    pub fn new(violations: Vec<Violation>, parameters: Vec<String>) -> Self {
        Self { violations, parameters }
    }

    /// Returns all violations, in the order of the model's parameters; undeclared inputs come last.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns the names of all parameters of the model, in its order.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// Returns whether one of the violations is of this kind.
    pub fn has(&self, kind: ViolationKind) -> bool {
        self.violations.iter().any(|violation| violation.kind == kind)
    }
}

impl std::error::Error for InvalidInputs {}

impl fmt::Display for InvalidInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.violations.iter().take(MAX_SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{violation}")?;
        }
        match self.violations.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// One violation: one input, and why it does not fit.
///
/// `Display` is the message, which begins with the name of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    field: String,
    kind: ViolationKind,
    message: String,
}

impl Violation {
    /// Creates a violation. The message should be one line and begin with the name of the input.
    pub fn new(field: impl Into<String>, kind: ViolationKind, message: impl Into<String>) -> Self {
        Self { field: field.into(), kind, message: message.into() }
    }

    /// Returns the name of the input, exactly as it was given or declared.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns what kind of violation it is.
    pub fn kind(&self) -> ViolationKind {
        self.kind
    }

    /// Returns the message: one line of bounded length, without control characters and without the
    /// query of a URL, which may be a signature.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The kinds of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    /// The input is required, but was not given, or given as null.
    Missing,
    /// The model declares no parameter of this name.
    Undeclared,
    /// The value has another type than the parameter, such as a list where a number belongs.
    WrongType,
    /// The number is below the minimum or above the maximum.
    OutOfRange,
    /// The value is not one of the options. They are compared exactly.
    NotAnOption,
    /// The value of a file parameter is not an absolute URL over http or https.
    NotAUrl,
    /// The file has a MIME type that the parameter does not accept.
    MimeType,
}
