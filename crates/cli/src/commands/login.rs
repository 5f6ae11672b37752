//! `inferstore login`.

use std::io::{BufRead, BufReader, Read};

use clap::Args;
use inferstore::BASE_URL_VARIABLE;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::profiles::{self, Profile, Profiles};
use crate::settings::Session;

/// Store where a service is, and the key to it
///
/// The key is read from the terminal without showing it, or from standard input when that is no
/// terminal. It is checked by reading the balance, and stored in a file that only you can read.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Store them without asking the service
    #[arg(long)]
    no_check: bool,
}

const EXAMPLES: &str = "\
Examples:
  inferstore login --base-url https://host.example/api/v1
  inferstore login --base-url https://staging.example/api/v1 --profile staging
  inferstore login --base-url https://host.example/api/v1 < key.txt";

/// A key is shorter.
const LONGEST_KEY: u64 = 64 * 1024;

pub(crate) async fn execute(arguments: Arguments, mut session: Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let mut profiles = Profiles::read(&path)?;
    let name = session
        .profile_name()
        .or_else(|| profiles.current.clone())
        .unwrap_or_else(|| profiles::DEFAULT.to_owned());
    let known = || profiles.profiles.get(&name).map(|profile| profile.base_url.clone());
    let Some(base_url) = session.given_base_url().or_else(known) else {
        return Err(Failure::usage("which service to log in to is not known")
            .with_hint(format!("give --base-url https://host/api/v1, or set {BASE_URL_VARIABLE}")));
    };
    let key = match session.global.api_key.clone() {
        Some(key) => key.0,
        None => read_key(&mut session)?,
    };
    if key.is_empty() {
        return Err(Failure::new(exit::KEY, "no key was given").with_hint("paste the key and press Enter"));
    }
    let client = session.client_of(&base_url, &key)?;
    if !arguments.no_check {
        client.account().balance().await?;
    }
    let base_url = client.base_url().to_owned();
    session.output.note(format!("profile {name}: {base_url}"));
    session.output.note(format!("stored in {}", path.display()));
    profiles.profiles.insert(name.clone(), Profile { base_url, api_key: key });
    profiles.current = Some(name);
    profiles.write(&path)
}

fn read_key(session: &mut Session) -> Result<String> {
    let failed = |error| Failure::local_failure("the key cannot be read", error);
    if session.environment.stdin_is_terminal {
        let key = rpassword::prompt_password("API key (it is not shown): ").map_err(failed)?;
        return Ok(key.trim().to_owned());
    }
    let mut line = String::new();
    let mut stdin = BufReader::new((&mut session.environment.stdin).take(LONGEST_KEY));
    stdin.read_line(&mut line).map_err(failed)?;
    Ok(line.trim().to_owned())
}
