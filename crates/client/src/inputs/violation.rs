//! What is wrong with inputs: every violation of the model's schema, each with what to do about it.

use std::fmt;

use inferstore_api::Decimal;

use super::shown;

/// Inputs that do not fit the model. Nothing was sent: no file was uploaded, no task created.
///
/// Its text has one line for each violation, and names the parameters of the model when one was
/// given that it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidInputs {
    violations: Vec<Violation>,
    parameters: Vec<String>,
}

impl InvalidInputs {
    /// `parameters` are the names of all that the model takes.
    pub(super) fn new(violations: Vec<Violation>, parameters: Vec<String>) -> Self {
        Self { violations, parameters }
    }

    /// All that is wrong, in the order of the model's parameters; unknown ones come last.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The names of all parameters of the model, in its order.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }
}

impl std::error::Error for InvalidInputs {}

impl fmt::Display for InvalidInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.violations.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{violation}")?;
        }
        if self.violations.iter().any(|violation| matches!(violation.problem, Problem::Unknown { .. })) {
            write!(f, "\nthe model takes: {}", shown::listed(&self.parameters, shown::name))?;
        }
        Ok(())
    }
}

/// One thing that is wrong with one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    field: String,
    given: Option<String>,
    problem: Problem,
}

impl Violation {
    /// `given` must be fit to be shown.
    pub(super) fn new(field: &str, given: Option<String>, problem: Problem) -> Self {
        Self { field: field.to_owned(), given, problem }
    }

    /// The name of the parameter.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What was given, if anything was: shortened, texts in quotes, and URLs without their query,
    /// which may be a signature.
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.given().unwrap_or("nothing");
        write!(f, "{}: ", shown::name(&self.field))?;
        match &self.problem {
            Problem::Missing { expected } => write!(f, "required, but not given; give {expected}"),
            Problem::Unknown { did_you_mean } => {
                f.write_str("the model has no such parameter; ")?;
                match did_you_mean {
                    Some(name) => write!(f, "did you mean {}?", shown::name(name)),
                    None => f.write_str("leave it out"),
                }
            }
            Problem::WrongType { expected, found } => {
                // A list, an object and a file are shown as just that.
                if given.starts_with(found) {
                    write!(f, "{given} does not fit; give {expected}")
                } else {
                    write!(f, "{given} is {found}; give {expected}")
                }
            }
            Problem::NotANumber => write!(f, "{given} is not a number; give digits such as 12.5"),
            Problem::NotWhole => write!(f, "{given} is not a whole number; give it without a fraction"),
            Problem::BelowMinimum { min } => write!(f, "{given} is below the minimum; give {min} or more"),
            Problem::AboveMaximum { max } => write!(f, "{given} is above the maximum; give {max} or less"),
            Problem::OffStep { min: Some(min), step } => {
                write!(f, "{given} is between two steps; give {min} plus a multiple of {step}")
            }
            Problem::OffStep { min: None, step } => {
                write!(f, "{given} is between two steps; give a multiple of {step}")
            }
            Problem::NotAnOption { options, did_you_mean } => {
                write!(f, "{given} is not among its options; ")?;
                if let Some(option) = did_you_mean {
                    write!(f, "did you mean {}? ", shown::quoted(option))?;
                }
                write!(f, "give one of {}", shown::listed(options, shown::quoted))
            }
            Problem::NotAUrl => write!(
                f,
                "{given} is not the URL of a file; give one that begins with http:// or https://, \
                 or a file to upload"
            ),
            Problem::MimeMismatch { accepted, .. } => {
                write!(
                    f,
                    "{given} is not accepted; give a file of type {}",
                    shown::listed(accepted, shown::name)
                )
            }
        }
    }
}

/// What can be wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// It is required and was not given, or given as null.
    Missing {
        /// What the parameter takes.
        expected: String,
    },
    /// The model has no such parameter.
    Unknown {
        /// The parameter whose name is most like the one given.
        did_you_mean: Option<String>,
    },
    /// It is of another type altogether, such as a list where a number belongs.
    WrongType {
        /// What the parameter takes.
        expected: String,
        /// What was given instead.
        found: &'static str,
    },
    /// It is a text that is not a number.
    NotANumber,
    /// It is a number with a fraction.
    NotWhole,
    /// It is too small.
    BelowMinimum {
        /// The smallest value.
        min: Decimal,
    },
    /// It is too large.
    AboveMaximum {
        /// The largest value.
        max: Decimal,
    },
    /// It lies between two steps.
    OffStep {
        /// Where the steps begin; at 0 when there is no minimum.
        min: Option<Decimal>,
        /// The distance between two steps.
        step: Decimal,
    },
    /// It is not among the words to choose from. They are compared exactly.
    NotAnOption {
        /// All words there are.
        options: Vec<String>,
        /// The word that is most like the one given.
        did_you_mean: Option<String>,
    },
    /// It is not an absolute URL over http or https.
    NotAUrl,
    /// It is a file whose MIME type the parameter does not accept.
    MimeMismatch {
        /// The type of the file.
        mime: String,
        /// The patterns of the parameter, such as `image/*`.
        accepted: Vec<String>,
    },
}
