//! The clock, the node of this process, and what accounts own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::Controls;
use crate::admin::Admin;
use crate::clock::Moment;
use crate::jobs;
use crate::ledger::{Credit, Money, Purse};
use crate::{Error, Result};

/// What an account owns and owes, as a tester sets it; None leaves as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    /// What was paid in and may be spent.
    pub balance: Option<Money>,
    /// What was given and may be spent.
    pub free_balance: Option<Money>,
    /// What is owed.
    pub debt: Option<Money>,
}

impl Controls {
    /// What time the service thinks it is: ISO 8601 in UTC.
    pub fn time(&self) -> String {
        self.app.clock.now().to_string()
    }

    /// How many tasks there are of each status, all accounts together.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn tasks(&self) -> Result<BTreeMap<String, u64>> {
        let depths = self.app.database.depths().await?;
        Ok(depths.into_iter().map(|(status, tasks)| (status.word().to_owned(), tasks)).collect())
    }

    /// Sets the clock of the service ahead. What was due meanwhile happens at once: leases run out,
    /// upload targets expire, storage is billed.
    ///
    /// # Errors
    /// When the clock cannot show that time, or the database cannot be written.
    pub async fn advance_clock(&self, by: Duration) -> Result<()> {
        let (now, last) = (self.app.clock.now(), Moment::last());
        if now.after(by) > last {
            let left = (last.0 - now.0) / 1000;
            let cause = format!("it shows no time after {last}; seconds must be at most {left}");
            return Err(Error::new("setting the clock ahead", cause));
        }
        self.app.clock.advance(by);
        // The node was alive all along; without this it would seem to have been silent for so long.
        self.app.node.heartbeat(&self.app).await?;
        jobs::run_all(&self.app).await?;
        self.app.dispatcher.look_for_all();
        Ok(())
    }

    /// The node of this process stops: what it runs is interrupted and free for other nodes, and what
    /// waits keeps waiting. Only models of other nodes are served.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn take_node_down(&self) -> Result<()> {
        let mut node = self.tester.switch.pause().await;
        node.is_up = false;
        self.tester.switch.interrupt(&mut node);
        self.app.node.deregister(&self.app).await
    }

    /// The node of this process works again.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn bring_node_up(&self) -> Result<()> {
        self.tester.switch.pause().await.is_up = true;
        self.app.node.heartbeat(&self.app).await?;
        self.app.dispatcher.look_for_all();
        Ok(())
    }

    /// Whether the node of this process claims tasks.
    pub async fn is_node_up(&self) -> bool {
        self.app.config.workers > 0 && self.tester.switch.hold().await.is_up()
    }

    /// Gives an account money or free credits.
    ///
    /// # Errors
    /// When there is no such account, the amount is not above zero, the account would own more than the largest
    /// amount, or the database cannot be written.
    pub async fn credit(&self, username: &str, credit: Credit) -> Result<()> {
        Admin::new(&self.app).credit(username, credit).await
    }

    /// Sets what an account owns and owes; the books still add up.
    ///
    /// # Errors
    /// When there is no such account, an amount is below zero, the account would own more than the largest amount, or
    /// the database cannot be written.
    pub async fn set_balance(&self, username: &str, amounts: Amounts) -> Result<()> {
        let doing = "setting a balance";
        let account = Admin::new(&self.app).account(username, doing).await?;
        let Amounts { balance, free_balance, debt } = amounts;
        if [balance, free_balance, debt].into_iter().flatten().any(|amount| amount < Money::ZERO) {
            return Err(Error::new(doing, "amounts are not below zero"));
        }
        // What is owed is kept as a negative amount.
        let debt = debt.map(|debt| Money::from_smallest(-debt.smallest()));
        let wanted = [(Purse::Balance, balance), (Purse::Free, free_balance), (Purse::Debt, debt)];
        let wanted: Vec<_> =
            wanted.into_iter().filter_map(|(purse, amount)| Some((purse, amount?))).collect();
        self.app.database.set_purses(account.id, &wanted, self.app.clock.now()).await
    }
}
