//! Credits, debits and movements of money of an account.

use axum::Extension;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Admin;
use super::audit_log::{Details, DoneWith};
use super::http::{Done, PageQuery, found};
use crate::accounts::check_line;
use crate::http::request::{ApiJson, ApiPath, ApiQuery};
use crate::http::response::{Failure, Success};
use crate::ledger::{Adjusted, Adjustment, Credit, Money, Purse};
use crate::{Error, Result};

const MAX_REFERENCE: usize = 200;
pub(super) const MAX_NOTE: usize = 1_000;

const NOT_ABOVE_ZERO: &str = "the amount is not above zero";

impl Admin {
    /// Credits an account. Fails if there is none, the amount is not positive, or the sum exceeds the largest amount.
    pub async fn credit(&self, username: &str, credit: Credit) -> Result<()> {
        let doing = "crediting an account";
        let adjustment: Adjustment = credit.into();
        if !adjustment.amount.is_positive() {
            return Err(Error::new(doing, NOT_ABOVE_ZERO));
        }
        self.adjust(username, &adjustment, doing).await.map(drop)
    }

    async fn adjust(&self, username: &str, adjustment: &Adjustment, doing: &str) -> Result<Adjusted> {
        let account = self.account(username, doing).await?;
        self.database.adjust(account.id, adjustment, self.clock.now()).await
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Body {
    paid: Option<Money>,
    free: Option<Money>,
    reference: Option<String>,
    note: Option<String>,
}

impl Body {
    fn adjustment(self) -> Result<Adjustment, Failure> {
        let credit = Credit::of(self.paid, self.free).map_err(Failure::unprocessable)?;
        for (name, text, max) in
            [("reference", &self.reference, MAX_REFERENCE), ("note", &self.note, MAX_NOTE)]
        {
            if let Some(text) = text {
                check_line(name, text, max).map_err(Failure::unprocessable)?;
            }
        }
        let adjustment = Adjustment { reference: self.reference, note: self.note, ..credit.into() };
        if !adjustment.amount.is_positive() {
            return Err(Failure::unprocessable(NOT_ABOVE_ZERO));
        }
        Ok(adjustment)
    }
}

pub(super) async fn credit(admin: Admin, ApiPath(account): ApiPath, body: ApiJson<Body>) -> DoneWith {
    perform(&admin, &account, &body.value.adjustment()?, "crediting an account").await
}

pub(super) async fn debit(admin: Admin, ApiPath(account): ApiPath, body: ApiJson<Body>) -> DoneWith {
    let credit = body.value.adjustment()?;
    if credit.note.is_none() {
        return Err(Failure::unprocessable("a debit needs a note that says why").into());
    }
    let amount = Money::from_smallest(-credit.amount.smallest());
    perform(&admin, &account, &Adjustment { amount, ..credit }, "debiting an account").await
}

async fn perform(admin: &Admin, username: &str, adjustment: &Adjustment, doing: &str) -> DoneWith {
    let adjusted = admin.adjust(username, adjustment, doing).await?;
    let refused = |message: String| Err(Failure::new(StatusCode::CONFLICT, message).into());
    match adjusted {
        Adjusted::Done | Adjusted::Before => {
            let is_repeated = adjusted == Adjusted::Before;
            let details = if is_repeated { json!({ "is_repeated": true }) } else { Value::Null };
            let data = json!({
                "account": username,
                "amount": adjustment.amount,
                "free": adjustment.purse == Purse::Free,
                "reference": adjustment.reference,
                "is_repeated": is_repeated,
            });
            Ok((Extension(Details(details)), Success::data(data)))
        }
        Adjusted::ReferenceUsed => {
            let reference = adjustment.reference.as_deref().unwrap_or_default();
            let other = "another amount, or for a debit, a credit or free credits instead";
            refused(format!("the reference {reference:?} was used for {other}"))
        }
        Adjusted::TooLittle { owned } => refused(format!("{username:?} has only {owned}")),
    }
}

pub(super) async fn movements(
    admin: Admin,
    ApiPath(username): ApiPath,
    ApiQuery(page): ApiQuery<PageQuery>,
) -> Done {
    let account = found(&admin, &username).await?;
    let (limit, offset) = page.bounds()?;
    let movements = admin.database.movements(account.id, limit, offset).await?;
    Ok(Success::data(json!({ "movements": movements })))
}
