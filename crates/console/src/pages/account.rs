//! Account: the balance, and what was spent by day and by model, from the history.

use super::prelude::*;
use std::collections::BTreeMap;

use inferstore::Decimal;
use inferstore::types::TaskStatus;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::task::history;

/// How many days and models the charts show, and how many tasks they are made of.
const DAYS: i64 = 14;
const MODELS: usize = 8;
const TASKS: u64 = 2_000;

/// The size of the chart of days.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 220.0;

pub(crate) async fn show(State(app): State<Shared>) -> Result<Markup> {
    let balance = within(app.client.account().balance()).await?;
    let read =
        history(&app, None, usize::MAX, TASKS, |task| task.status == Some(TaskStatus::Success)).await?;
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let days =
        (0..DAYS).rev().filter_map(|back| today.checked_sub(back.days()).ok()).map(|day| day.to_string());
    let mut by_day: BTreeMap<String, Decimal> = days.map(|day| (day, Decimal::default())).collect();
    let mut by_model: BTreeMap<String, Decimal> = BTreeMap::new();
    let mut whole = Decimal::default();
    for (_, task) in &read.records {
        let Some(cost) = &task.cost else { continue };
        let add = |sum: &mut Decimal| *sum = sum.checked_add(cost).unwrap_or_else(|| sum.clone());
        add(&mut whole);
        add(by_model.entry(task.model_id.clone().unwrap_or_default()).or_default());
        let stamp = task.created_at.as_ref().map_or("", |stamp| stamp.as_str());
        if let Some(day) = by_day.get_mut(stamp.get(..10).unwrap_or_default()) {
            add(day);
        }
    }
    let mut by_model: Vec<_> = by_model.into_iter().collect();
    by_model.sort_by(|a, b| b.1.cmp(&a.1));
    let purses = [
        ("Balance", &balance.balance),
        ("Free credits", &balance.free_balance),
        ("Debt", &balance.debt),
        ("Earnings", &balance.earnings),
    ];
    let body = html! {
        div.heading { h1 { "Account" } p.muted { (app.client.base_url()) } }
        dl.purses { @for (name, sum) in purses { div.card { dt { (name) } dd { (amount(sum.as_ref())) } } } }
        section.card {
            h2 { "Spent by day" }
            p.muted { "The last " (DAYS) " days, in UTC." }
            (days_chart(&by_day))
        }
        section.card {
            h2 { "Spent by model" }
            p.muted { "In " (read.records.len()) " successful tasks, " (amount(Some(&whole))) " in all." @if read.read_to > 0 { " Only the " (TASKS) " latest tasks are counted." } }
            (models_chart(&by_model))
        }
    };
    Ok(page("Account", "/account", body))
}

/// How long a bar is. Only the drawing is not exact.
fn length(amount: &Decimal) -> f64 {
    amount.as_str().parse().unwrap_or_default()
}

fn days_chart(days: &BTreeMap<String, Decimal>) -> Markup {
    let highest = days.values().map(length).fold(0.0, f64::max);
    let step = WIDTH / days.len().max(1) as f64;
    let title = |day: &str, sum: &Decimal| format!("{day}: {}", amount(Some(sum)));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Chart of days" {
            svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT + 44.0) } role="img" aria-label="Bars of what was spent on each day" {
                line x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                @for (index, (day, sum)) in days.iter().enumerate() {
                    @let height = if highest > 0.0 { (HEIGHT - 24.0) * length(sum) / highest } else { 0.0 };
                    @let left = step * index as f64;
                    g { title { (title(day, sum)) }
                        @if height > 0.0 {
                            rect x=(left + step * 0.18) width=(step * 0.64) y=(HEIGHT - height) height=(height) rx="4" {}
                            text.sum x=(left + step / 2.0) y=(HEIGHT - height - 7.0) { (amount(Some(sum))) }
                        }
                        text x=(left + step / 2.0) y=(HEIGHT + 22.0) { (day.get(5..).unwrap_or_default()) }
                    }
                }
            }
        }
        details { summary { "As a table" }
            table { thead { tr { th { "Day" } th.end { "Spent" } } } tbody { @for (day, sum) in days { tr { td { (day) } td.end { (amount(Some(sum))) } } } } }
        }
    }
}

fn models_chart(models: &[(String, Decimal)]) -> Markup {
    let highest = models.first().map_or(0.0, |(_, sum)| length(sum));
    html! {
        @if models.is_empty() { div.empty { p { "Nothing was spent yet." } } }
        table.bars {
            thead.hidden { tr { th { "Model" } th { "Share" } th { "Spent" } } }
            tbody {
                @for (model, sum) in models.iter().take(MODELS) {
                    @let share = if highest > 0.0 { 100.0 * length(sum) / highest } else { 0.0 };
                    tr {
                        td { (titled(model)) }
                        td.wide { svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" { rect.track width="100" height="10" {} rect width=(share) height="10" {} } }
                        td.end { (amount(Some(sum))) }
                    }
                }
            }
        }
    }
}
