//! Dialect of an engine: the parts of SQL in which the engines differ.

pub(super) struct Dialect {
    pub(super) for_update: &'static str,
    pub(super) for_no_key_update: &'static str,
    /// Conditions on a text, around the parameter that has a list of texts.
    pub(super) in_list: [&'static str; 2],
    pub(super) not_in_list: [&'static str; 2],
    /// Table with the column `item`, around the parameter that has a list of texts.
    pub(super) items: [&'static str; 2],
    pub(super) greatest: &'static str,
    pub(super) position: &'static str,
    pub(super) json_of_models: &'static str,
    /// Conditions in the words of partial indexes: the active version, and unused upload targets.
    pub(super) is_active: &'static str,
    pub(super) unused: &'static str,
    pub(super) meters: &'static str,
    pub(super) meter_account: &'static str,
    pub(super) metered_accounts: &'static str,
    pub(super) task: &'static str,
    /// Inserts the account $1 with the scope $2, wallet address $3 and bucket $4 at $5, unless its name is taken.
    pub(super) add_account: &'static str,
    pub(super) accounts: &'static str,
    pub(super) storing: &'static str,
    pub(super) charges_at_once: usize,
    /// Column of the order of publication, and its value for a new model, if the database does not number rows.
    pub(super) model_number: [&'static str; 2],
    /// Parts around the insertion of an object, which count the object in its folder.
    pub(super) count_object: [&'static str; 2],
    /// Deletes the object in bucket $1 with key $2, if $3 is null or its payer; returns its payer, size and blob.
    pub(super) remove_object: &'static str,
}

impl Dialect {
    pub(super) fn is_in(&self, param: &str) -> String {
        self.in_list.join(param)
    }

    pub(super) fn is_not_in(&self, param: &str) -> String {
        self.not_in_list.join(param)
    }
}
