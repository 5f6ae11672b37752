//! A picture in the terminal: kitty, iTerm, sixel or half blocks, whatever the terminal can.

use std::path::Path;

use crate::environment::Environment;
use crate::failure::{Failure, Result};

/// Terminals that speak kitty's protocol, as they call themselves in TERM or TERM_PROGRAM.
const KITTY: [&str; 4] = ["xterm-kitty", "xterm-ghostty", "ghostty", "WezTerm"];
/// Terminals that know sixel graphics.
const SIXEL: [&str; 5] = ["foot", "foot-extra", "mlterm", "contour", "xterm-sixel"];

/// Shows a picture, no larger than it is and no larger than the terminal.
pub(crate) fn show(path: &Path, environment: &Environment) -> Result {
    let failed = |cause: String| Failure::local_failure(format!("{} cannot be shown", path.display()), cause);
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let picture = image::load_from_memory(&bytes).map_err(|error| failed(error.to_string()))?;
    let names = [environment.variable("TERM"), environment.variable("TERM_PROGRAM")];
    let is_one_of = |known: &[&str]| names.iter().flatten().any(|name| known.contains(name));
    let config = viuer::Config {
        absolute_offset: false,
        // Asking a terminal what it can, waits for an answer that some terminals never give.
        use_kitty: is_one_of(&KITTY),
        use_sixel: is_one_of(&SIXEL),
        ..viuer::Config::default()
    };
    viuer::print(&picture, &config).map_err(|error| failed(error.to_string()))?;
    Ok(())
}
