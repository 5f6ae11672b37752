//! `inferstore status`: which service and account a command would use, and where each setting comes from.

use inferstore::redact_url;
use serde_json::json;

use crate::failure::Result;
use crate::output::Report;
use crate::profiles;
use crate::settings::{Session, Setting, masked};
use crate::table::Table;

pub(crate) const EXAMPLES: &str = "Examples:\n  inferstore status\n  inferstore status --profile staging";

pub(crate) async fn execute(session: &Session) -> Result {
    let target = session.target()?;
    let from = |setting: &Setting| format!("{} (from {})", setting.value, setting.source);
    let client = session.client_of(&target.base_url.value, &target.api_key.value)?;
    let balance = client.balance().await;
    let account = balance.as_ref().ok().cloned().unwrap_or_default();
    let [amount, free] = [account.balance, account.free_balance].map(|amount| Some(amount?.to_string()));
    let wallet = account.wallet_address;
    let file = profiles::path(&session.environment).ok().map(|path| path.display().to_string());
    let (cacert, proxy) = session.cacert_and_proxy(&target.base_url.value);
    let base_url = Setting { value: redact_url(&target.base_url.value), ..target.base_url };
    let key = Setting { value: masked(&target.api_key.value), ..target.api_key };
    let cacert = cacert.map(|path| path.display().to_string());
    let proxy = proxy.as_deref().map(redact_url);
    let state = if balance.is_ok() { "reached, and the key is accepted" } else { "not usable" };
    let table = Table::of_fields([
        ("service", Some(from(&base_url))),
        ("key", Some(from(&key))),
        ("state", Some(state.to_owned())),
        ("wallet", wallet.clone()),
        ("balance", amount.clone()),
        ("free credits", free.clone()),
        ("certificates", cacert.clone()),
        ("proxy", proxy.clone()),
        ("profiles", file.clone()),
    ]);
    let record = json!({
        "base_url": base_url.value,
        "base_url_from": base_url.source,
        "api_key": key.value,
        "api_key_from": key.source,
        "is_usable": balance.is_ok(),
        "wallet_address": wallet,
        "balance": amount,
        "free_balance": free,
        "cacert": cacert,
        "proxy": proxy,
        "profiles": file,
    });
    session.output.report(&Report::of_one(table, record, base_url.value))?;
    balance.map(drop).map_err(Into::into)
}
