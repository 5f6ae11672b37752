//! Account over HTTP: balance and debt.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use serde::Serialize;

use super::Api;
use super::Caller;
use crate::http::response::{Done, Success};
use crate::ledger::Money;

pub(crate) fn routes() -> Router<Arc<Api>> {
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

async fn balance(Caller { api, account, .. }: Caller) -> Done<Balance> {
    let purses = api.database.purses(account.id).await?;
    Ok(Success::data(Balance {
        balance: purses.balance,
        free_balance: purses.free,
        debt: purses.owed(),
        earnings: purses.earnings,
        wallet_address: account.wallet_address,
    }))
}
