//! Controls of the clock, of the local node, and of balances.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::Controls;
use crate::clock::Moment;
use crate::jobs;
use crate::ledger::{Credit, Money, Purse};
use crate::{Error, Result};

/// New amounts of an account; None leaves an amount unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    /// Paid money that can be spent.
    pub balance: Option<Money>,
    /// Free credits.
    pub free_balance: Option<Money>,
    /// Debt.
    pub debt: Option<Money>,
}

impl Controls {
    /// Returns the time of the service: ISO 8601 in UTC.
    pub fn time(&self) -> String {
        self.admin.clock.now().to_string()
    }

    /// Returns the number of tasks of each status, over all accounts.
    pub async fn tasks(&self) -> Result<BTreeMap<String, u64>> {
        let depths = self.admin.database.depths().await?;
        Ok(depths.into_iter().map(|(status, tasks)| (status.word().to_owned(), tasks)).collect())
    }

    /// Advances the clock, up to its last time. Due events happen at once: lease and target expiry, storage billing.
    pub async fn advance_clock(&self, by: Duration) -> Result<()> {
        let (now, last) = (self.admin.clock.now(), Moment::last());
        if now.after(by) > last {
            let left = (last.0 - now.0) / 1000;
            let cause = format!("it shows no time after {last}; seconds must be at most {left}");
            return Err(Error::new("setting the clock ahead", cause));
        }
        self.admin.clock.advance(by);
        self.jobs.clock_watch.advance(by);
        // The local node was alive throughout; without a heartbeat it would count as silent.
        self.nodes.heartbeat().await?;
        jobs::run_all(&self.jobs).await?;
        self.admin.dispatcher.look_for_all();
        Ok(())
    }

    /// Takes the local node down: other nodes can claim its interrupted runs, and queued tasks stay queued.
    pub async fn take_node_down(&self) -> Result<()> {
        let mut node = self.tester.switch.pause().await;
        node.is_up = false;
        self.tester.switch.interrupt(&mut node);
        self.nodes.deregister().await
    }

    /// Brings the local node up again.
    pub async fn bring_node_up(&self) -> Result<()> {
        self.tester.switch.pause().await.is_up = true;
        self.nodes.heartbeat().await?;
        self.admin.dispatcher.look_for_all();
        Ok(())
    }

    /// Returns true if the local node claims tasks.
    pub async fn is_node_up(&self) -> bool {
        self.nodes.workers > 0 && self.tester.switch.hold().await.is_up()
    }

    /// Credits an account. Fails if there is none, the amount is not positive, or the sum exceeds the largest amount.
    pub async fn credit(&self, username: &str, credit: Credit) -> Result<()> {
        self.admin.credit(username, credit).await
    }

    /// Sets amounts by movements in the ledger. Fails without such an account, below zero, or above the largest amount.
    pub async fn set_balance(&self, username: &str, amounts: Amounts) -> Result<()> {
        let doing = "setting a balance";
        let account = self.admin.account(username, doing).await?;
        let Amounts { balance, free_balance, debt } = amounts;
        if [balance, free_balance, debt].into_iter().flatten().any(|amount| amount < Money::ZERO) {
            return Err(Error::new(doing, "amounts are not below zero"));
        }
        // The ledger stores debt as a negative amount.
        let debt = debt.map(|debt| Money::from_smallest(-debt.smallest()));
        let wanted = [(Purse::Balance, balance), (Purse::Free, free_balance), (Purse::Debt, debt)];
        let wanted: Vec<_> =
            wanted.into_iter().filter_map(|(purse, amount)| Some((purse, amount?))).collect();
        self.admin.database.set_purses(account.id, &wanted, self.admin.clock.now()).await
    }
}
