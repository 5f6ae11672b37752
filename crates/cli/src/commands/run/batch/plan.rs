//! Plan of a batch: its entries, what they cost, and which of them are paid already.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::fmt;
use std::future::ready;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, stream};
use inferstore::{Client, Decimal};
use serde_json::json;

use crate::commands::outputs::{Delivery, TemplateVariables};
use crate::commands::run::contents::Contents;
use crate::commands::run::entries::{Entries, Entry};
use crate::commands::run::journal::{Earlier, Items, hash_of, key};
use crate::commands::run::{RunOptions, configured, limited};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::settings::Session;
use crate::table::Table;

const MAX_CONCURRENT_CHECKS: usize = 16;

const MAX_MISTAKES: usize = 10;

pub(in crate::commands) struct Plan {
    pub(in crate::commands) client: Client,
    pub(in crate::commands) model: String,
    pub(in crate::commands) entries: Entries,
    /// The entries with the same inputs as an entry before, which is run for them.
    pub(super) repeated: HashMap<usize, Vec<usize>>,
    /// The places of the entries that are run.
    pub(super) distinct: Vec<usize>,
    /// The keys of items with the same contents, whose files had other times.
    recognized: HashMap<usize, String>,
    pub(in crate::commands) options: RunOptions,
    pub(in crate::commands) delivery: Delivery,
    /// The price of a run, where there is a budget.
    pub(in crate::commands) price: Option<Decimal>,
    /// All entries are checked before the first one is run.
    pub(in crate::commands) checks_all: bool,
}

impl Plan {
    pub(in crate::commands) fn new(
        client: Client,
        model: String,
        options: RunOptions,
        delivery: Delivery,
    ) -> Self {
        Self {
            client,
            model,
            entries: Entries::default(),
            repeated: HashMap::new(),
            distinct: Vec::new(),
            recognized: HashMap::new(),
            options,
            delivery,
            price: None,
            checks_all: false,
        }
    }

    pub(super) fn items(&self, path: &Path) -> Result<Items> {
        let RunOptions { delete_inputs, budget, .. } = &self.options;
        let items = Items::open(&self.client, path)?;
        Ok(items.with(|batch| batch.delete_inputs(*delete_inputs).budget(budget.clone())))
    }

    /// Checks the options, and returns the folder of the outputs.
    pub(super) fn check_options(&self, session: &Session) -> Result<PathBuf> {
        if self.options.detach || self.options.outputs.show {
            return Err(Failure::usage("a batch cannot run with --detach or --show")
                .with_hint("give -o outputs/; after an interruption the same command continues"));
        }
        if !self.delivery.tells_runs_apart() {
            return Err(Failure::usage("every file of the batch would have the same output")
                .with_hint("write {input} or {task} into the template of -o; nothing was sent"));
        }
        self.delivery.folder(session).ok_or_else(|| {
            Failure::usage("several files need a folder for their outputs")
                .with_hint("give -o outputs/, or a template such as -o 'outputs/{input}.{ext}'")
        })
    }

    /// Finds entries with the inputs of an earlier one. Of files only the first stays: a pattern may match a named one.
    pub(super) fn find_repeated(&mut self, session: &Session) -> Result {
        let mut places = HashMap::new();
        for place in 0..self.entries.seeds.len() {
            let key = self.key(&self.entry(place, session)?);
            match places.entry(hash_of(key)) {
                Vacant(first) => {
                    first.insert(place);
                    self.distinct.push(place);
                }
                Occupied(first) => self.repeated.entry(*first.get()).or_default().push(place),
            }
        }
        if self.options.rows.is_none() {
            self.repeated.clear();
        }
        Ok(())
    }

    /// The places of the entries that are reported, in their order.
    pub(super) fn places(&self) -> Vec<usize> {
        let repeated = self.repeated.values().flatten();
        let mut places: Vec<usize> = self.distinct.iter().chain(repeated).copied().collect();
        places.sort_unstable();
        places
    }

    pub(super) fn entry(&self, place: usize, session: &Session) -> Result<Entry> {
        let Some(seed) = self.entries.seeds.get(place) else { return Ok(Entry::default()) };
        let mut entry = self.entries.entry(seed, session)?;
        entry.label = self.label(place);
        entry.item = self.recognized.get(&place).cloned();
        Ok(entry)
    }

    pub(super) fn label(&self, place: usize) -> String {
        let label = self.entries.seeds.get(place).map(|seed| seed.label.to_string());
        label.filter(|label| !label.is_empty()).unwrap_or_else(|| self.model.clone())
    }

    /// Checks every entry, and creates nothing. Each mistake is reported with its row or file.
    pub(super) async fn check(&self, session: &Session) -> Result {
        let check = async |place: usize| {
            let entry = self.entry(place, session)?;
            // The price and the nodes are those of all entries.
            let run = self.client.model(&*self.model).run(entry.inputs);
            let run = run.options(|run| run.skip_validation = self.options.no_check);
            run.check().await.map_err(|error| Failure::from(error).about(&entry.label))
        };
        let checks = stream::iter(self.places()).map(check).buffered(MAX_CONCURRENT_CHECKS);
        let mistakes = checks.filter_map(|checked| ready(checked.err())).take(MAX_MISTAKES);
        session.output.failures(mistakes.collect().await)
    }

    pub(super) async fn quote(&self, items: Option<&Items>, session: &Session) -> Result<Quote> {
        let needs_price =
            self.options.budget.is_some() || self.options.dry_run || self.options.rows.is_some();
        let price = if needs_price { self.client.model(&*self.model).cost().await?.cost } else { None };
        let keys = self.distinct.iter().map(|&place| Ok(self.key(&self.entry(place, session)?)));
        let earlier = items.map(|items| Earlier::count(items.batch(), keys, price.as_ref())).transpose()?;
        Ok(Quote { price, count: self.distinct.len(), earlier: earlier.unwrap_or_default() })
    }

    pub(super) fn report(&self, quote: Quote, session: &Session) -> Result {
        let Quote { count, earlier: Earlier { paid, begun, .. }, .. } = quote;
        let total = quote.total().map(|total| total.to_string());
        session.note("nothing was uploaded, and no task was created");
        if paid > 0 {
            session.note(format!("{paid} of {count} files are paid already"));
        }
        if begun > 0 {
            session.note(format!(
                "the tasks of {begun} of {count} files may be created already; the cost counts them"
            ));
        }
        let table = Table::of_fields([
            ("model", Some(self.model.clone())),
            ("files", Some(count.to_string())),
            ("cost", total.clone()),
        ]);
        let files: Vec<String> = self.distinct.iter().map(|&place| self.label(place)).collect();
        let json = json!({"model": self.model, "files": files, "cost": total}).to_string();
        session.output.report(&Report { table, json, ..Report::default() })
    }

    pub(super) fn run(&self, entry: &Entry) -> inferstore::Run {
        let run = configured(&self.client, &self.model, entry.inputs.clone(), &self.options);
        limited(run, self.max_cost())
    }

    /// The most that a run may cost: the price where there is a budget, so that the sum is known before.
    pub(super) fn max_cost(&self) -> Option<&Decimal> {
        self.options.max_cost.iter().chain(&self.price).min()
    }

    pub(super) fn names(&self, entry: &Entry) -> TemplateVariables {
        let input = Some(entry.name.clone()).filter(|name| !name.is_empty());
        TemplateVariables { input, model: Some(self.model.clone()) }
    }

    pub(super) fn recognize_all(&mut self, items: &Items, session: &Session) -> Result {
        let mut contents = Contents::default();
        for place in self.distinct.clone() {
            let mut entry = self.entry(place, session)?;
            self.recognize(&mut entry, &mut contents, items)?;
            self.recognized.extend(entry.item.map(|item| (place, item)));
        }
        Ok(())
    }

    /// Finds the item of an entry whose files have new times, and the contents that they had.
    pub(in crate::commands) fn recognize(
        &self,
        entry: &mut Entry,
        contents: &mut Contents,
        items: &Items,
    ) -> Result {
        let key = self.key(entry);
        if items.batch().item(&*key).step()?.is_none() {
            entry.item = contents.same_item(&key, items)?;
        }
        Ok(())
    }

    pub(in crate::commands) fn key(&self, entry: &Entry) -> String {
        if let Some(item) = &entry.item {
            return item.clone();
        }
        key(self.client.base_url(), &self.model, &entry.others, &entry.file)
    }
}

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
