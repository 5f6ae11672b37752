//! `inferstore admin`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use inferstore_service::{Config, Credit, Error, ModelSpec, Money, Scope, Service, Visibility};
use serde_json::json;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::settings::Session;
use crate::table::Table;

/// Look after the accounts, keys, money, models and nodes of a local service
///
/// Works on the data folder of a service that is stopped: a folder is used by one process at a time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The data folder of the service
    #[arg(long, global = true, value_name = "DIR", default_value = "inferstore-data")]
    data_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  inferstore admin account add lena
  inferstore admin key add lena --format quiet
  inferstore admin credit lena 25.50
  inferstore admin model price haze-removal 0.02
  inferstore admin node add studio
  inferstore admin audit";

#[derive(Debug, Subcommand)]
enum Command {
    /// Add and list accounts, and add members of organizations
    #[command(subcommand)]
    Account(Account),
    /// Draw and revoke API keys
    #[command(subcommand)]
    Key(Key),
    /// Give an account money, or free credits
    Credit(CreditArguments),
    /// Publish models, and change what they cost
    #[command(subcommand)]
    Model(Model),
    /// Draw and revoke the keys of nodes outside the service
    #[command(subcommand)]
    Node(Node),
    /// Recompute every balance from the movements of money
    #[command(after_help = "Examples:\n  inferstore admin audit")]
    Audit,
}

/// Add and list accounts, and add members of organizations
#[derive(Debug, Subcommand)]
enum Account {
    /// Add an account with nothing in it and no key
    #[command(
        after_help = "Examples:\n  inferstore admin account add lena\n  inferstore admin account add studio --organization"
    )]
    Add {
        /// The name of the account
        name: String,
        /// It is an organization, which persons are members of
        #[arg(long)]
        organization: bool,
    },
    /// List the accounts with their money, the oldest first
    #[command(
        after_help = "Examples:\n  inferstore admin account list\n  inferstore admin account list --format jsonl"
    )]
    List,
    /// Make a person a member of an organization
    #[command(after_help = "Examples:\n  inferstore admin account join studio lena")]
    Join {
        /// The organization
        organization: String,
        /// The person
        person: String,
    },
    /// End a membership; upload targets that the person holds for the organization work no more
    #[command(after_help = "Examples:\n  inferstore admin account leave studio lena")]
    Leave {
        /// The organization
        organization: String,
        /// The person
        person: String,
    },
}

/// Draw and revoke API keys
#[derive(Debug, Subcommand)]
enum Key {
    /// Draw a key for an account; this is the one time it is shown
    #[command(after_help = "Examples:\n  inferstore admin key add lena --format quiet")]
    Add {
        /// The account
        account: String,
    },
    /// Revoke a key, which is read from the terminal without showing it, or from standard input
    #[command(after_help = "Examples:\n  inferstore admin key revoke < key.txt")]
    Revoke,
}

/// Give an account money, or free credits
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore admin credit lena 25.50\n  inferstore admin credit lena 5 --free"
)]
struct CreditArguments {
    /// The account
    account: String,
    /// The amount, exact to nine digits behind the point
    amount: Money,
    /// Free credits, which are used first
    #[arg(long)]
    free: bool,
}

/// Publish models, and change what they cost
#[derive(Debug, Subcommand)]
enum Model {
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
    /// Show a model to everyone, or to its owner alone
    #[command(after_help = "Examples:\n  inferstore admin model visibility edge-map private")]
    Visibility {
        /// The model
        model: String,
        /// Who sees it
        visibility: SeenBy,
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

/// Who sees a model.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SeenBy {
    /// Everyone
    Public,
    /// Its owner, and the members of the organization that owns it
    Private,
}

/// Draw and revoke the keys of nodes outside the service
#[derive(Debug, Subcommand)]
enum Node {
    /// Draw a key that nodes may share; it is shown once
    #[command(
        after_help = "Examples:\n  inferstore admin node add studio --format quiet\n  inferstore admin node add lab --model edge-map --model upscale"
    )]
    Add {
        /// What the key is called
        name: String,
        /// A model that nodes with this key may serve; may be repeated. Any model without it
        #[arg(long = "model", value_name = "MODEL")]
        models: Vec<String>,
    },
    /// Revoke a key; what its nodes were running goes to others
    #[command(after_help = "Examples:\n  inferstore admin node revoke studio")]
    Revoke {
        /// What the key is called
        name: String,
    },
}

pub(crate) async fn execute(arguments: Arguments, mut session: Session) -> Result {
    let folder = session.surroundings.folder.join(&arguments.data_dir);
    if !folder.join("inferstore.db").is_file() {
        return Err(Failure::usage(format!(
            "{} is no data folder of a service",
            arguments.data_dir.display()
        ))
        .with_hint("name it with --data-dir; the first `inferstore serve` makes one"));
    }
    let mut config = Config::folder(folder);
    // Nobody but this command uses the folder now, and no task begins.
    config.workers = 0;
    let service = Service::start(config).await.map_err(failed)?;
    let done = administer(arguments.command, &service, &mut session).await;
    service.shutdown().await;
    done
}

async fn administer(command: Command, service: &Service, session: &mut Session) -> Result {
    match command {
        Command::Account(Account::Add { name, organization }) => {
            let scope = if organization { Scope::Organization } else { Scope::Personal };
            service.add_account(&name, scope).await.map_err(failed)?;
            done(session, &format!("the account {name} is added"), json!({"account": name}), &name)
        }
        Command::Account(Account::List) => accounts(service, session).await,
        Command::Account(Account::Join { organization, person }) => {
            service.add_member(&organization, &person).await.map_err(failed)?;
            let told = format!("{person} is a member of {organization}");
            done(session, &told, json!({"organization": organization, "member": person}), &person)
        }
        Command::Account(Account::Leave { organization, person }) => {
            if !service.remove_member(&organization, &person).await.map_err(failed)? {
                let told = format!("{person} is no member of {organization}");
                return Err(Failure::new(exit::INPUT, told).with_hint("perhaps it has left already"));
            }
            let told = format!("{person} is no longer a member of {organization}");
            done(session, &told, json!({"organization": organization, "former_member": person}), &person)
        }
        Command::Key(Key::Add { account }) => {
            let key = service.add_key(&account).await.map_err(failed)?;
            show_once(session, "account", &account, "api_key", key)
        }
        Command::Key(Key::Revoke) => {
            let key = read_key(session)?;
            if service.revoke_key(&key).await.map_err(failed)? {
                done(session, "the key is revoked", json!({"revoked": true}), "")
            } else {
                Err(Failure::new(exit::INPUT, "there is no such key")
                    .with_hint("perhaps it is revoked already"))
            }
        }
        Command::Credit(CreditArguments { account, amount, free }) => {
            let credit = if free { Credit::Free(amount) } else { Credit::Paid(amount) };
            service.credit(&account, credit).await.map_err(failed)?;
            let told = format!("{account} has {amount} more{}", if free { " free credits" } else { "" });
            done(
                session,
                &told,
                json!({"account": account, "amount": amount.to_string(), "free": free}),
                &account,
            )
        }
        Command::Model(Model::Publish { account, file }) => {
            let spec = ModelSpec::from_json(&super::api::text_of(&file, session)?).map_err(failed)?;
            let model = spec.id.clone();
            let hash = service.publish_model(&account, spec).await.map_err(failed)?;
            let told = format!("{account} has published the model {model}");
            done(session, &told, json!({"publisher": account, "model": model, "commit_hash": hash}), &model)
        }
        Command::Model(Model::Version { account, file }) => {
            let spec = ModelSpec::from_json(&super::api::text_of(&file, session)?).map_err(failed)?;
            let (inputs, outputs) = (spec.input_format.get(), spec.output_format.get());
            let hash = service.publish_version(&account, &spec.id, inputs, outputs).await.map_err(failed)?;
            let told = format!("version {hash} of {} is the active one", spec.id);
            done(session, &told, json!({"model": spec.id, "commit_hash": hash}), &hash)
        }
        Command::Model(Model::Visibility { model, visibility }) => {
            let (word, visibility) = match visibility {
                SeenBy::Public => ("public", Visibility::Public),
                SeenBy::Private => ("private", Visibility::Private),
            };
            service.set_visibility(&model, visibility).await.map_err(failed)?;
            let told = format!("{model} is {word}");
            done(session, &told, json!({"model": model, "visibility": word}), &model)
        }
        Command::Node(Node::Add { name, models }) => {
            let key = match &models[..] {
                [] => service.add_node_key(&name).await,
                models => service.add_node_key_for(&name, models).await,
            };
            let key = key.map_err(failed)?;
            show_once(session, "name", &name, "node_key", key)
        }
        Command::Node(Node::Revoke { name }) => match service.revoke_node_key(&name).await.map_err(failed)? {
            true => done(session, "the key is revoked", json!({"name": name, "revoked": true}), &name),
            false => Err(Failure::new(exit::INPUT, format!("there is no valid key called {name}"))
                .with_hint("perhaps it is revoked already")),
        },
        Command::Model(Model::Price { model, price }) => {
            service.set_price(&model, price).await.map_err(failed)?;
            let told = format!("a run of {model} costs {price} from now on");
            done(session, &told, json!({"model": model, "price": price.to_string()}), &model)
        }
        Command::Audit => audit(service, session).await,
    }
}

/// Shows a key, of which only a hash is kept.
fn show_once(session: &Session, owner: &str, name: &str, kind: &str, key: String) -> Result {
    let table = Table::of_fields([(owner, Some(name.to_owned())), ("key", Some(key.clone()))]);
    let json = json!({owner: name, kind: key}).to_string();
    session.output.report(&Report { table, json, quiet: vec![key], ..Report::default() })?;
    session.output.note("only a hash of the key is kept, so this is the one time it is shown");
    Ok(())
}

fn done(session: &Session, told: &str, json: serde_json::Value, quiet: &str) -> Result {
    session.output.note(told);
    let quiet = Some(quiet.to_owned()).filter(|quiet| !quiet.is_empty());
    let report = Report { json: json.to_string(), quiet: quiet.into_iter().collect(), ..Report::default() };
    session.output.report(&report)
}

/// The names and values are those of the API's balance.
async fn accounts(service: &Service, session: &Session) -> Result {
    let mut table = Table::new(["ACCOUNT", "SCOPE", "BALANCE", "FREE", "DEBT", "EARNINGS"]);
    let (mut records, mut quiet) = (Vec::new(), Vec::new());
    for account in service.accounts().await.map_err(failed)? {
        let scope = account.scope.word();
        let amounts = [account.balance, account.free_balance, account.debt, account.earnings];
        let [balance, free_balance, debt, earnings] = amounts.map(|amount| amount.to_string());
        let json = json!({
            "account": account.username, "scope": scope, "balance": balance,
            "free_balance": free_balance, "debt": debt, "earnings": earnings,
        });
        records.push(json.to_string());
        quiet.push(account.username.clone());
        table.add([account.username, scope.to_owned(), balance, free_balance, debt, earnings]);
    }
    let json = format!(r#"{{"accounts":[{}]}}"#, records.join(","));
    session.output.report(&Report { table, json, records: Some(records), quiet, ..Report::default() })
}

async fn audit(service: &Service, session: &Session) -> Result {
    let audit = service.audit().await.map_err(failed)?;
    let count = audit.movements.to_string();
    let json = json!({"movements": audit.movements, "faults": audit.faults}).to_string();
    let table = Table::of_fields([
        ("movements", Some(count.clone())),
        ("faults", Some(audit.faults.len().to_string())),
    ]);
    session.output.report(&Report { table, json, quiet: vec![count], ..Report::default() })?;
    match &audit.faults[..] {
        [] => Ok(()),
        faults => Err(Failure::new(exit::FAILED, format!("the books are wrong\n{}", faults.join("\n")))
            .with_hint("keep a copy of the data folder, and tell whoever maintains the service")),
    }
}

fn read_key(session: &mut Session) -> Result<String> {
    let failed = |error| Failure::here("the key cannot be read", error);
    if session.surroundings.stdin_is_terminal {
        return rpassword::prompt_password("API key (it is not shown): ").map_err(failed);
    }
    let mut line = String::new();
    BufReader::new(&mut session.surroundings.stdin).read_line(&mut line).map_err(failed)?;
    Ok(line.trim().to_owned())
}

fn failed(error: Error) -> Failure {
    let is_folder_taken = error.is_folder_taken();
    let failure = Failure::new(exit::FAILED, error.to_string());
    if is_folder_taken {
        failure.with_hint("stop the service, then try again")
    } else {
        failure.with_hint("nothing was changed; correct what is named and try again")
    }
}
