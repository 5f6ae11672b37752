//! Settings, and the initial data of a service, in any engine.

use async_trait::async_trait;

use super::accounts::{add_account, add_key};
use super::engine::{Engine, How, Rows as _, params, work};
use super::ledger::adjust;
use super::records::column;
use super::{Bootstrap, Bootstrapped, FIRST_ACCOUNT, Settings, UNSHOWN_KEY};
use crate::Result;
use crate::clock::Moment;
use crate::ledger::Credit;

const SETTING: &str = "SELECT value FROM settings WHERE name = $1";

pub(super) const SET_SETTING: &str = "INSERT INTO settings (name, value) VALUES ($1, $2) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";

pub(super) const HAS_ROWS: &str =
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM settings)";

#[async_trait]
impl<E: Engine> Settings for E {
    async fn setting(&self, name: &str) -> Result<Option<String>> {
        self.first(SETTING, params![name], column).await
    }

    async fn setting_or(&self, name: &str, value: &str) -> Result<String> {
        // Two transactions, so that the second one sees a concurrent write of another process.
        let insert = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        self.run(insert, params![name, value]).await?;
        Ok(self.setting(name).await?.unwrap_or_else(|| value.to_owned()))
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        self.run(SET_SETTING, params![name, value]).await.map(drop)
    }

    async fn bootstrap(&self, begin: &Bootstrap, now: Moment) -> Result<Bootstrapped> {
        work!(self, How::Transaction, |db, begin, now| {
            // The locks serialize starts, and prevent the revocation of a key between its check and its insertion.
            db.lock_tables("settings, api_keys").await?;
            let operator = add_account(db, &begin.operator, *now).await?;
            let earlier: Option<String> = db.first(SETTING, params![FIRST_ACCOUNT], column).await?;
            // A start adds its key beside an earlier, possibly unshown one, if neither of them is revoked.
            let may_add_key = "SELECT 1 FROM settings WHERE name = $1 AND NOT EXISTS ( \
                 SELECT 1 FROM api_keys WHERE id IN (value, $2) AND revoked_at IS NOT NULL)";
            let is_key_new =
                earlier.is_none() || db.is_there(may_add_key, params![UNSHOWN_KEY, begin.key.id]).await?;
            let username = earlier.as_ref().unwrap_or(&begin.first.username);
            if earlier.is_none() {
                let first = add_account(db, &begin.first, *now).await?.id;
                adjust(db, first, &Credit::Paid(begin.balance).into(), *now).await?;
                adjust(db, first, &Credit::Free(begin.free_balance).into(), *now).await?;
                let insert = "INSERT INTO settings (name, value) VALUES ($1, $2)";
                db.run(insert, params![FIRST_ACCOUNT, username]).await?;
            }
            if is_key_new {
                let owner = "SELECT id FROM accounts WHERE username = $1";
                let owner = db.one(owner, params![username], column).await?;
                add_key(db, owner, &begin.key, *now).await?;
                db.run(SET_SETTING, params![UNSHOWN_KEY, begin.key.id]).await?;
            }
            Ok(Bootstrapped { operator, is_key_new })
        })
    }

    async fn first_key_shown(&self, id: &str) -> Result<()> {
        let delete = "DELETE FROM settings WHERE name = $1 AND value = $2";
        self.run(delete, params![UNSHOWN_KEY, id]).await.map(drop)
    }
}
