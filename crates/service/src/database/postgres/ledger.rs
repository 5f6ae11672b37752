//! Folding of old movements, and the audit, in PostgreSQL.

use async_trait::async_trait;

use super::PostgresDatabase;
use super::audit::audit;
use super::failure::{read, statement};
use super::statements::{all, one};
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::column;
use crate::ledger::{Audit, MAX_OLD_MOVEMENTS, MovementSums, Reason};

/// Returns the statement that folds movements which meet a condition on the first two parameters into one for each pair
/// of purses, and returns their number. A sum over years can exceed the largest amount, and is then split.
pub(super) fn add_up(old: &str) -> String {
    format!(
        "WITH old AS ( \
       DELETE FROM movements WHERE {old} RETURNING amount, from_account, from_purse, to_account, to_purse), \
     sums AS ( \
       SELECT sum(amount) AS amount, from_account, from_purse, to_account, to_purse FROM old \
       GROUP BY from_account, from_purse, to_account, to_purse), \
     carried AS ( \
       INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason) \
       SELECT $3, least(amount - part * 9223372036854775807, 9223372036854775807)::bigint, \
         from_account, from_purse, to_account, to_purse, $4 \
       FROM sums CROSS JOIN LATERAL \
         generate_series(0, div(amount - 1, 9223372036854775807)) AS parts (part)) \
     SELECT count(*) FROM old"
    )
}

#[async_trait]
impl MovementSums for PostgresDatabase {
    async fn carry_movements(&self, before: Moment, now: Moment) -> Result<usize> {
        let select = "SELECT coalesce(from_account, to_account) AS account FROM movements \
                      WHERE task IS NULL AND at < $1 GROUP BY 1 HAVING count(*) > $2";
        let accounts: Vec<AccountId> =
            read!(self, |db| all(db, select, &[&before, &i64::from(MAX_OLD_MOVEMENTS)], column))?;
        let carry = add_up("task IS NULL AND coalesce(from_account, to_account) = $1 AND at < $2");
        let mut carried = 0;
        // One statement for each account, so that no statement is large.
        for account in accounts {
            let of_account: i64 =
                statement!(self, |db| one(db, &carry, &[&account, &before, &now, &Reason::Carried], column))?;
            carried += usize::try_from(of_account).unwrap_or(0);
        }
        Ok(carried)
    }

    async fn audit(&self) -> Result<Audit> {
        let mut connection = self.connection().await?;
        Ok(audit(&mut connection).await?)
    }
}
