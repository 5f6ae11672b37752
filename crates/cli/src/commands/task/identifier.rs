//! Names of tasks on the command line: an identifier, the beginning of one, or `@last`.

use inferstore::Client;
use inferstore::types::TaskRecord;

use crate::failure::{Failure, Result};
use crate::lists::{MAX_PAGE, newest_tasks};

/// The length of an identifier.
const IDENTIFIER: usize = 36;

/// A shorter beginning is taken as it is.
const MIN_PREFIX: usize = 4;

/// How many tasks are searched for a beginning.
const MAX_SEARCHED: u64 = 1_000;

/// The identifier of the task that is named. A beginning must be that of exactly one recent task.
pub(in crate::commands) async fn identified(named: &str, client: &Client) -> Result<String> {
    if named == "@last" {
        let newest = newest_tasks(client, 0, 1).await?;
        return newest.first().map(|task| task.task_id.to_string()).ok_or_else(|| {
            Failure::usage("there is no task yet").with_hint("`inferstore run MODEL` creates one")
        });
    }
    let is_prefix = (MIN_PREFIX..IDENTIFIER).contains(&named.len())
        && named.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !is_prefix {
        return Ok(named.to_owned());
    }
    let matches: Vec<String> = search(client, |task| task.task_id.as_str().starts_with(named))
        .await?
        .into_iter()
        .map(|task| task.task_id.to_string())
        .collect();
    match &matches[..] {
        [one] => Ok(one.clone()),
        // The service says that it does not exist.
        [] => Ok(named.to_owned()),
        several => Err(Failure::usage(format!("{} tasks begin with {named}", several.len()))
            .with_hint(format!("give more characters: {}", several.join(", ")))),
    }
}

/// The model of a task, which only the history states.
pub(super) async fn model_of(id: &str, client: &Client) -> Result<Option<String>> {
    let found = search(client, |task| task.task_id.as_str() == id).await?;
    Ok(found.into_iter().next().and_then(|task| task.model_id))
}

async fn search(client: &Client, fits: impl Fn(&TaskRecord) -> bool) -> Result<Vec<TaskRecord>> {
    let mut found = Vec::new();
    let mut offset = 0;
    while offset < MAX_SEARCHED {
        let page = newest_tasks(client, offset, MAX_PAGE).await?;
        if page.is_empty() {
            break;
        }
        offset += page.len() as u64;
        found.extend(page.into_iter().filter(&fits));
    }
    Ok(found)
}
