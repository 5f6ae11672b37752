//! `inferstore admin`.

mod calls;
mod transfer;

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use inferstore_service::{AdminClient, AdminError, Money};

use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;
use crate::values::yes_or_no;

pub(super) const DATA_DIR: &str = "inferstore-data";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The data folder of the service
    #[arg(long, global = true, value_name = "DIR", default_value = DATA_DIR)]
    data_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  inferstore admin account add lena
  inferstore admin key add lena --format quiet
  inferstore admin credit lena 25.50 --reference invoice-17
  inferstore admin key revoke isk_q3v9
  inferstore admin model price haze-removal 0.02
  inferstore admin task refund 0198c5a2-6a0e-7c3e-9d55-5a1b3f0e7c11
  inferstore admin backup /var/backups/inferstore/monday";

#[derive(Debug, Subcommand)]
enum Command {
    /// Add, list, suspend and close accounts
    #[command(subcommand)]
    Account(Account),
    /// Add, list and remove members of organizations
    #[command(subcommand)]
    Member(Member),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(Key),
    /// Give an account money, or free credits
    #[command(
        after_help = "Examples:\n  inferstore admin credit lena 25.50 --reference invoice-17\n  inferstore admin credit lena 5 --free"
    )]
    Credit {
        #[command(flatten)]
        adjustment: Adjustment,
        /// The reason, for `admin account movements`
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Take money or free credits back from an account, no more than it has
    #[command(
        after_help = "Examples:\n  inferstore admin debit lena 2524.50 --note mistyped --reference invoice-17-corrected"
    )]
    Debit {
        #[command(flatten)]
        adjustment: Adjustment,
        /// The reason, for `admin account movements`
        #[arg(long, value_name = "TEXT")]
        note: String,
    },
    /// Publish, list, pause and retire models, and change their texts, what they cost and who sees them
    #[command(subcommand)]
    Model(Model),
    /// List nodes, and create and revoke the keys of nodes outside the service
    #[command(subcommand)]
    Node(Node),
    /// List, show, end and refund tasks
    #[command(subcommand)]
    Task(Task),
    /// Take down a file
    #[command(subcommand)]
    File(File),
    /// List what operators did with these commands and requests, the newest first
    #[command(after_help = "Examples:\n  inferstore admin log --limit 20")]
    Log(Page),
    /// Recompute every balance from the movements of money
    #[command(after_help = "Examples:\n  inferstore admin audit")]
    Audit,
    /// Write a consistent copy of everything, also while the service runs
    #[command(
        after_help = "Examples:\n  inferstore admin backup /var/backups/inferstore/monday\n  inferstore serve --data-dir /var/backups/inferstore/monday"
    )]
    Backup {
        /// The folder of the copy, which is empty or missing
        folder: PathBuf,
    },
    /// Write everything of a stopped service to a folder, to import it into another database or bucket
    #[command(
        after_help = "Examples:\n  inferstore admin export /mnt/move --data-dir /var/lib/inferstore\n  inferstore admin export /mnt/move --objects 's3://bucket?endpoint=https://s3.example'"
    )]
    Export(transfer::Arguments),
    /// Read an export into an empty database and an empty folder or bucket; run it again after an interruption
    #[command(
        after_help = "Examples:\n  inferstore admin import /mnt/move --data-dir /srv/inferstore\n  INFERSTORE_DATABASE=… inferstore admin import /mnt/move --objects 's3://bucket?endpoint=https://s3.example'"
    )]
    Import(transfer::Arguments),
}

#[derive(Debug, Args)]
struct Adjustment {
    /// The account
    account: String,
    /// The amount, exact to nine digits behind the point
    #[arg(allow_negative_numbers = true)]
    amount: Money,
    /// Free credits, which are used first
    #[arg(long)]
    free: bool,
    /// Reference of the change, unique for the account: a change sent again with its reference is made once
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
}

#[derive(Debug, Args)]
struct OneAccount {
    /// The account
    account: String,
}

#[derive(Debug, Subcommand)]
enum Account {
    /// Add an account with nothing in it and no key
    #[command(
        after_help = "Examples:\n  inferstore admin account add lena\n  inferstore admin account add studio --organization"
    )]
    Add {
        /// The name of the account: lower-case letters, digits, `.`, `_`, `-`, `@` and `+`
        name: String,
        /// Create an organization, which has members, instead of a personal account
        #[arg(long)]
        organization: bool,
    },
    /// List the accounts with their money, the oldest first
    #[command(
        after_help = "Examples:\n  inferstore admin account list\n  inferstore admin account list --format jsonl"
    )]
    List,
    /// Show an account: money, files, tasks, keys, memberships
    #[command(after_help = "Examples:\n  inferstore admin account show lena")]
    Show(OneAccount),
    /// Refuse the keys of an account and let its queued tasks wait, until it is resumed
    #[command(after_help = "Examples:\n  inferstore admin account suspend lena")]
    Suspend(OneAccount),
    /// End the suspension of an account
    #[command(after_help = "Examples:\n  inferstore admin account resume lena")]
    Resume(OneAccount),
    /// Close an account for good: revoke its keys, end its memberships, cancel its queued tasks
    #[command(after_help = "Examples:\n  inferstore admin account close lena")]
    Close(OneAccount),
    /// Limit the bytes of the files that an account pays for; unused upload targets count
    #[command(
        after_help = "Examples:\n  inferstore admin account quota lena 20GiB\n  inferstore admin account quota lena none"
    )]
    Quota {
        /// The account
        account: String,
        /// The number of bytes, such as 500MB or 20GiB, or `none`
        #[arg(value_parser = quota)]
        quota: Quota,
    },
    /// List the credits, debits and bills for storage of an account, the newest first
    #[command(after_help = "Examples:\n  inferstore admin account movements lena --limit 20")]
    Movements {
        /// The account
        account: String,
        #[command(flatten)]
        page: Page,
    },
}

/// A number of bytes; None for any.
#[derive(Debug, Clone, Copy)]
struct Quota(Option<u64>);

fn quota(text: &str) -> Result<Quota, &'static str> {
    const UNITS: [(u64, [&str; 4]); 2] =
        [(1024, ["KiB", "MiB", "GiB", "TiB"]), (1000, ["kB", "MB", "GB", "TB"])];
    if text == "none" {
        return Ok(Quota(None));
    }
    let units =
        UNITS.iter().flat_map(|(base, names)| (1..).zip(names).map(|(power, name)| (base.pow(power), name)));
    let mut of_unit = units.filter_map(|(unit, name)| Some((text.strip_suffix(name)?, unit)));
    let (number, unit) = of_unit.next().unwrap_or((text, 1));
    let bytes = number.trim().parse().ok().and_then(|number: u64| number.checked_mul(unit));
    bytes.map(|bytes| Quota(Some(bytes))).ok_or("give a whole number of bytes, such as 20GiB, or none")
}

#[derive(Debug, Subcommand)]
enum Member {
    /// Make a person a member of an organization
    #[command(after_help = "Examples:\n  inferstore admin member add studio lena")]
    Add {
        /// The organization
        organization: String,
        /// The person
        person: String,
    },
    /// List the members of an organization
    #[command(after_help = "Examples:\n  inferstore admin member list studio")]
    List {
        /// The organization
        organization: String,
    },
    /// End a membership; upload targets that the person holds for the organization work no more
    #[command(after_help = "Examples:\n  inferstore admin member remove studio lena")]
    Remove {
        /// The organization
        organization: String,
        /// The person
        person: String,
    },
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Create a key for an account; this is the one time it is shown
    #[command(
        after_help = "Examples:\n  inferstore admin key add lena --format quiet\n  inferstore admin key add lena --name nightly --daily-limit 2.50 --model haze-removal --expires-in-days 90"
    )]
    Add {
        /// The account
        account: String,
        /// A name for `admin key list`
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// After how many days the key is refused
        #[arg(long, value_name = "DAYS")]
        expires_in_days: Option<u32>,
        /// Largest sum of the prices of the tasks that the key creates on a day of UTC
        #[arg(long, value_name = "AMOUNT")]
        daily_limit: Option<Money>,
        /// A model that the key creates tasks of; may be repeated. Any model without it
        #[arg(long = "model", value_name = "MODEL")]
        models: Vec<String>,
    },
    /// List the keys of an account, the newest first; of a key, only its identifier is known
    #[command(after_help = "Examples:\n  inferstore admin key list lena")]
    List(OneAccount),
    /// Revoke a key
    #[command(
        after_help = "Examples:\n  inferstore admin key revoke q3v9k2m8x0ab\n  inferstore admin key revoke isk_q3v9\n  inferstore admin key revoke < key.txt"
    )]
    Revoke {
        /// The identifier of the key, or a beginning that no other valid key has. Without it, the whole key is
        /// read from the terminal without showing it, or from standard input
        key: Option<String>,
    },
}

#[derive(Debug, Args)]
struct OneModel {
    /// The model
    model: String,
}

#[derive(Debug, Subcommand)]
enum Model {
    /// List all models, private ones too, in the order of their publication
    #[command(
        after_help = "Examples:\n  inferstore admin model list\n  inferstore admin model list --offset 100"
    )]
    List(Page),
    /// Publish a new model
    #[command(after_help = "Examples:\n  inferstore admin model publish lena model.json")]
    Publish {
        /// The account that publishes it; what inferstore publishes is official
        account: String,
        /// The model as JSON: `id`, `name`, `description`, `price` (a string), `visibility`, `metadata`,
        /// `input_format`, `output_format`, and perhaps `is_playground`, `likes`, `downloads`
        #[arg(value_name = "FILE|-")]
        file: String,
    },
    /// Publish a new version of a model; tasks that exist keep what was declared
    #[command(after_help = "Examples:\n  inferstore admin model version lena model.json")]
    Version {
        /// The account that has published the model
        account: String,
        /// The model as JSON, as for `publish`; its formats are what is new
        #[arg(value_name = "FILE|-")]
        file: String,
    },
    /// Show a model to everyone, or to its owner and the members of the organization that owns it
    #[command(after_help = "Examples:\n  inferstore admin model visibility edge-map private")]
    Visibility {
        /// The model
        model: String,
        /// Visibility
        #[arg(value_parser = ["public", "private"])]
        visibility: String,
    },
    /// Mark a model as verified to run on this service, or remove the mark
    #[command(
        after_help = "Examples:\n  inferstore admin model verified edge-map yes\n  inferstore admin model verified edge-map no"
    )]
    Verified {
        /// The model
        model: String,
        /// The new state
        #[arg(action = ArgAction::Set, value_parser = yes_or_no())]
        verified: bool,
    },
    /// Add a model to the playground, or remove it
    #[command(after_help = "Examples:\n  inferstore admin model playground edge-map yes")]
    Playground {
        /// The model
        model: String,
        /// The new state
        #[arg(action = ArgAction::Set, value_parser = yes_or_no())]
        playground: bool,
    },
    /// Let tasks of a model wait: they are still created, and the model counts as not served
    #[command(after_help = "Examples:\n  inferstore admin model pause edge-map")]
    Pause(OneModel),
    /// Run tasks of a model that was paused or retired
    #[command(after_help = "Examples:\n  inferstore admin model resume edge-map")]
    Resume(OneModel),
    /// Refuse new tasks of a model, and cancel the queued ones
    #[command(after_help = "Examples:\n  inferstore admin model retire edge-map")]
    Retire(OneModel),
    /// Change the name, the description or the metadata of a model
    ///
    /// A node that starts again keeps these changes, until its model.json changes the same field.
    #[command(
        after_help = "Examples:\n  inferstore admin model describe edge-map --name edge_map --description Edges\n  inferstore admin model describe edge-map --metadata '{\"pretty_name\":\"Edges\"}'"
    )]
    Describe {
        /// The model
        model: String,
        #[command(flatten)]
        texts: Texts,
    },
    /// Change what one run of a model costs; tasks that exist keep their price
    #[command(after_help = "Examples:\n  inferstore admin model price haze-removal 0.02")]
    Price {
        /// The model
        model: String,
        /// The price of one run
        price: Money,
    },
}

#[derive(Debug, Args, serde::Serialize)]
#[group(required = true, multiple = true)]
struct Texts {
    /// The title in the console and in searches
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The description of the model
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Fields of the metadata, such as `pretty_name` and `license`; the others stay
    #[arg(long, value_name = "JSON", value_parser = metadata)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<serde_json::Value>,
}

fn metadata(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
}

#[derive(Debug, Args)]
struct Page {
    /// Number of records to list, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Number of records to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

#[derive(Debug, Subcommand)]
enum Node {
    /// List the keys of nodes, and the nodes that were seen lately with them
    #[command(after_help = "Examples:\n  inferstore admin node list")]
    List,
    /// Create a key that nodes may share; it is shown once
    #[command(
        after_help = "Examples:\n  inferstore admin node add studio --format quiet\n  inferstore admin node add lab --model edge-map --model upscale"
    )]
    Add {
        /// The name of the key
        name: String,
        /// A model that nodes with this key may serve; may be repeated. Any model without it
        #[arg(long = "model", value_name = "MODEL")]
        models: Vec<String>,
    },
    /// Revoke a key; what its nodes were running goes to others
    #[command(after_help = "Examples:\n  inferstore admin node revoke studio")]
    Revoke {
        /// The name of the key
        name: String,
    },
}

#[derive(Debug, Subcommand)]
enum File {
    /// Delete the file of a `download_url`, whoever owns it
    #[command(
        after_help = "Examples:\n  inferstore admin file delete https://files.example.com/files-q3v9/k2/documents/notes.txt"
    )]
    Delete {
        /// Its URL
        url: String,
    },
}

#[derive(Debug, Args)]
struct OneTask {
    /// The task
    task: String,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List tasks of all accounts, the newest first
    #[command(
        after_help = "Examples:\n  inferstore admin task list --status computing\n  inferstore admin task list --account lena --limit 10"
    )]
    List {
        /// Of this account alone
        #[arg(long)]
        account: Option<String>,
        /// In this status alone
        #[arg(long, value_parser = ["in_queue", "computing", "success", "failed", "canceled"])]
        status: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show a task with its inputs, its outputs and the node that ran it
    #[command(after_help = "Examples:\n  inferstore admin task show 0198c5a2-6a0e-7c3e-9d55-5a1b3f0e7c11")]
    Show(OneTask),
    /// Cancel a queued task; its price is given back
    #[command(after_help = "Examples:\n  inferstore admin task cancel 0198c5a2-6a0e-7c3e-9d55-5a1b3f0e7c11")]
    Cancel(OneTask),
    /// Fail a running task; its price is given back, and a result of its node is refused
    #[command(
        after_help = "Examples:\n  inferstore admin task fail 0198c5a2-6a0e-7c3e-9d55-5a1b3f0e7c11 --message stopped"
    )]
    Fail {
        /// The task
        task: String,
        /// The reason, which the customer reads
        #[arg(long, value_name = "TEXT")]
        message: String,
    },
    /// Take a running task from its node, for any node to run it anew
    #[command(after_help = "Examples:\n  inferstore admin task requeue 0198c5a2-6a0e-7c3e-9d55-5a1b3f0e7c11")]
    Requeue(OneTask),
    /// Return what a successful task has cost, from the earnings of the publisher; once
    #[command(after_help = "Examples:\n  inferstore admin task refund 0198c5a2-6a0e-7c3e-9d55-5a1b3f0e7c11")]
    Refund(OneTask),
}

pub(crate) async fn execute(arguments: Arguments, mut session: Session) -> Result {
    let folder = session.here(&arguments.data_dir);
    match &arguments.command {
        Command::Export(command) => return transfer::export(command, folder, &session).await,
        Command::Import(command) => return transfer::import(command, folder, &session).await,
        _ => {}
    }
    let mut admin = AdminClient::open(&folder).await.map_err(|error| {
        let hint = match error.is_folder_taken() {
            true => "the service has no admin socket, or is starting: try again, or stop it",
            false => error.hint().unwrap_or("correct what is named and try again"),
        };
        Failure::new(exit::FAILED, error.to_string()).with_hint(hint)
    })?;
    let done = calls::perform(arguments.command, &mut admin, &mut session).await;
    admin.close().await;
    done
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        let code = if error.is_refused() { exit::INPUT } else { exit::FAILED };
        let hint = match error.is_outcome_unknown() {
            true => "it may have been done all the same: list what it changes before you try again",
            false => "nothing was changed; correct what is named and try again",
        };
        Self::new(code, error.to_string()).with_hint(hint)
    }
}
