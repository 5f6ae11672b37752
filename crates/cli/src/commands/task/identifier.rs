//! Names of tasks on the command line: an identifier, the beginning or the end of one, or `@last`.

use inferstore::Client;
use inferstore::types::TaskRecord;

use crate::failure::{Failure, Result};
use crate::lists::newest_tasks;

const IDENTIFIER: usize = 36;

/// A shorter part is taken as it is.
const MIN_PART: usize = 4;

const MAX_NAMED: usize = 5;

/// Number of recent tasks that are searched for a part.
const MAX_SEARCHED: u64 = 1_000;

/// The identifier of a named task: in full, @last, or a beginning (a time) or end (random) of just one recent task.
pub(in crate::commands) async fn identified(named: &str, client: &Client) -> Result<String> {
    if named == "@last" {
        let newest = newest_tasks(client, 1).await?;
        let none = || Failure::usage("there is no task yet").with_hint("`inferstore run MODEL` creates one");
        return newest.first().map(|task| task.task_id.to_string()).ok_or_else(none);
    }
    let is_part = (MIN_PART..IDENTIFIER).contains(&named.len())
        && named.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !is_part {
        return Ok(named.to_owned());
    }
    let fits = |task: &TaskRecord| {
        let id = task.task_id.as_str();
        id.starts_with(named) || id.ends_with(named)
    };
    match &search(client, fits).await?[..] {
        [one] => Ok(one.task_id.to_string()),
        // The service says that it does not exist.
        [] => Ok(named.to_owned()),
        several => {
            let ends: Vec<&str> =
                several.iter().take(MAX_NAMED).map(|task| end_of(task.task_id.as_str())).collect();
            let further = if several.len() > MAX_NAMED { ", …" } else { "" };
            Err(Failure::usage(format!("{} tasks begin or end with {named}", several.len()))
                .with_hint(format!("give the end of the identifier: {}{further}", ends.join(", "))))
        }
    }
}

/// The end of an identifier, which tells tasks of the same minute apart.
fn end_of(id: &str) -> &str {
    const LENGTH: usize = 8;
    &id[id.ceil_char_boundary(id.len().saturating_sub(LENGTH))..]
}

/// The model of a task, which only the history states.
pub(super) async fn model_of(id: &str, client: &Client) -> Result<Option<String>> {
    let found = search(client, |task| task.task_id.as_str() == id).await?;
    Ok(found.into_iter().next().and_then(|task| task.model_id))
}

async fn search(client: &Client, fits: impl Fn(&TaskRecord) -> bool) -> Result<Vec<TaskRecord>> {
    Ok(newest_tasks(client, MAX_SEARCHED).await?.into_iter().filter(fits).collect())
}
