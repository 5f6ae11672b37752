//! Account: the balance, and expenses by day and by model, from the history.

use super::prelude::*;
use std::collections::BTreeMap;

use inferstore::Decimal;
use inferstore::types::TaskRecord;
use jiff::{SignedDuration, Timestamp};

use super::keys;
use super::task::{MAX_READ, history};

const DAYS: i64 = 14;
const MODELS: usize = 8;

pub(crate) async fn show(app: &App) -> Result<Response> {
    let (balance, unit, tasks, storage, keys) = tokio::join!(
        within(app.client.balance()),
        app.currency(),
        history(app, None, usize::MAX, |_| true),
        within(app.client.storage_price()),
        within(app.client.keys().list())
    );
    let (balance, (mut tasks, read_to)) = (balance?, tasks?);
    // Other implementations may have neither.
    let storage = storage.ok().filter(|storage| storage.per_gib_day.is_some());
    let keys = keys.ok().filter(|keys| keys.records.is_some());
    // The oldest day of an incomplete history, some of whose tasks were not read.
    let oldest = tasks.last().filter(|_| read_to > 0).map(|task| day_of(task).to_owned());
    tasks.retain(|task| task.status == Some(TaskStatus::Success));
    let whole = sums(&tasks, |_| "").remove("").unwrap_or_default();
    let mut by_day = sums(&tasks, day_of);
    let now = app.client.service_time().and_then(|now| now.try_into().ok()).unwrap_or_else(Timestamp::now);
    let days = (0..DAYS).map(|back| (now - SignedDuration::from_hours(24 * back)).strftime("%F").to_string());
    let is_read = |day: &String| oldest.as_ref().is_none_or(|oldest| day >= oldest);
    let days: Vec<_> =
        days.map(|day| (is_read(&day).then(|| by_day.remove(&day).unwrap_or_default()), day)).collect();
    let is_used = |(sum, _): &(Option<Decimal>, String)| sum.as_ref().is_none_or(|sum| !sum.is_zero());
    let used = days.iter().rposition(is_used).map_or(0, |last| last + 1);
    let days = &days[..used];
    let by_model = sums(&tasks, |task| task.model_id.as_deref().unwrap_or_default());
    let mut models: Vec<_> = by_model.into_iter().map(|(model, sum)| (Some(sum), model)).collect();
    models.sort_by(|a, b| b.cmp(a));
    models.truncate(MODELS);
    let purses = [&balance.balance, &balance.free_balance, &balance.debt, &balance.earnings];
    let purses = ["Balance", "Free credits", "Debt", "Earnings"].into_iter().zip(purses);
    let body = html! {
        div.heading { h1 { "Account" } p.muted { (app.client.base_url()) } }
        dl.purses { @for (name, sum) in purses { div.card { dt { (name) } dd { (price(sum.as_ref(), unit)) } } } }
        @if let Some(storage) = &storage { p.muted { "Storing 1 GiB costs " (price(storage.per_gib_day.as_ref(), storage.unit.as_deref().unwrap_or(unit))) " a day." } }
        section.card {
            h2 { "Spent by day" }
            p.muted { "The last " (DAYS) " days, in UTC."
                @if let Some(oldest) = &oldest { " Only the " (MAX_READ) " latest tasks are counted: " (oldest) " may be incomplete, and older days are unknown." }
            }
            @if days.is_empty() { p { "Nothing was spent yet." } } @else { (chart("Day", days, unit)) }
        }
        section.card {
            h2 { "Spent by model" }
            p.muted { "In " (tasks.len()) " successful tasks, " (price(Some(&whole), unit)) " in all."
                @if read_to > 0 { " Only the " (MAX_READ) " latest tasks are counted." }
            }
            (chart("Model", &models, unit))
        }
        @if let Some(keys) = &keys { (keys::section(keys, unit)) }
    };
    Ok(page("Account", "/account", body))
}

fn sums(tasks: &[TaskRecord], key: impl Fn(&TaskRecord) -> &str) -> BTreeMap<String, Decimal> {
    let mut sums = BTreeMap::<_, Decimal>::new();
    for task in tasks {
        let sum = sums.entry(key(task).to_owned()).or_default();
        *sum = sum.checked_add(&task.cost.clone().unwrap_or_default()).unwrap_or_else(|| sum.clone());
    }
    sums
}

fn day_of(task: &TaskRecord) -> &str {
    task.created_at.as_ref().and_then(|stamp| stamp.as_str().get(..10)).unwrap_or_default()
}

fn chart(what: &str, sums: &[(Option<Decimal>, String)], unit: &str) -> Markup {
    let length = |sum: &Option<Decimal>| sum.as_ref().map_or(0.0, |sum| sum.as_str().parse().unwrap_or(0.0));
    let longest = sums.iter().map(|(sum, _)| length(sum)).fold(f64::MIN_POSITIVE, f64::max);
    html! {
        table.bars {
            thead.hidden { tr { th { (what) } th { "Share" } th { "Spent" } } }
            @for (sum, name) in sums {
                tr { td { (name) } td.wide { progress max=(longest) value=(length(sum)) aria-hidden="true" {} } td.end { (price(sum.as_ref(), unit)) } }
            }
        }
    }
}
