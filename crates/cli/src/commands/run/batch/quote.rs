//! The cost of a batch, and its budget.

use std::fmt;

use inferstore::Decimal;

use crate::commands::run::journal::Earlier;
use crate::exit;
use crate::failure::{Failure, Result};

pub(super) struct Quote {
    pub(super) price: Option<Decimal>,
    pub(super) count: usize,
    pub(super) earlier: Earlier,
}

impl Quote {
    /// The cost of the entries that are not paid. A missing price is not a price of zero.
    pub(super) fn total(&self) -> Option<Decimal> {
        let price = self.price.as_ref()?;
        Some((self.earlier.paid..self.count).map(|_| price).sum())
    }

    /// Returns the price of a run if all that is left is within the budget.
    pub(super) fn check(&self, budget: &Decimal) -> Result<Decimal> {
        let Some((price, left)) = self.price.clone().zip(self.total()) else {
            let headline = "the service states no price, so that no budget can be kept";
            return Err(Failure::new(exit::INPUT, headline).with_hint("run it without --budget"));
        };
        // What was begun is reserved already.
        let reserved = (0..self.earlier.begun).map(|_| &price).sum::<Decimal>();
        let total = &(&left - &reserved) + &self.earlier.committed;
        if &total > budget {
            let headline =
                format!("the batch costs {total} with what was spent before, and the budget is {budget}");
            return Err(Failure::new(exit::INPUT, headline)
                .with_hint("raise --budget, or give fewer rows or files; nothing was sent"));
        }
        Ok(price)
    }
}

impl fmt::Display for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || "an unknown amount".to_owned();
        let price = self.price.as_ref().map_or_else(unknown, ToString::to_string);
        let total = self.total().map_or_else(unknown, |total| total.to_string());
        write!(f, "{} runs at {price}: {total} in total", self.count - self.earlier.paid)?;
        if self.earlier.paid > 0 {
            write!(f, "; {} are paid already", self.earlier.paid)?;
        }
        Ok(())
    }
}
