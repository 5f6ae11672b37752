//! Account over HTTP: balance and debt.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use serde::Serialize;

use super::{Caller, Done, Success};
use crate::ledger::Money;
use crate::lifecycle::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/api-key/balance", get(balance))
}

#[derive(Serialize)]
struct Balance {
    balance: Money,
    free_balance: Money,
    debt: Money,
    earnings: Money,
    wallet_address: String,
}

async fn balance(Caller { app, account, .. }: Caller) -> Done<Balance> {
    let purses = app.database.purses(account.id).await?;
    Ok(Success::data(Balance {
        balance: purses.balance,
        free_balance: purses.free,
        debt: purses.owed(),
        earnings: purses.earnings,
        wallet_address: account.wallet_address,
    }))
}
