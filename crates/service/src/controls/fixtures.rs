//! Accounts, models and files from a folder.

use std::error::Error as StdError;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Amounts, Controls};
use crate::Error;
use crate::accounts::{Account, NewAccount, NewKey, Scope};
use crate::admin::Admin;
use crate::catalog::{Existing, ModelSpec};
use crate::ledger::Money;
use crate::object_storage::{FOLDERS, store_local};

/// How much loading fixtures added or updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct LoadedFixtures {
    /// How many accounts.
    pub accounts: usize,
    /// How many models.
    pub models: usize,
    /// How many files.
    pub files: usize,
}

/// One element of `accounts.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountEntry {
    username: String,
    #[serde(default)]
    is_organization: bool,
    /// API keys, chosen beforehand.
    #[serde(default)]
    keys: Vec<String>,
    balance: Option<Money>,
    free_balance: Option<Money>,
    debt: Option<Money>,
    /// For organizations: who belongs to it.
    #[serde(default)]
    members: Vec<String>,
}

/// One element of `files.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    /// Whose file it is.
    account: String,
    folder: String,
    name: String,
    mime: String,
    /// Where its content is, relative to the folder of the fixtures.
    path: PathBuf,
}

impl Controls {
    /// Adds the fixtures of a folder, or updates them: `accounts.json`, `models/<publisher>/*.json` and
    /// `files.json`, each of which may be missing. A reset keeps them.
    ///
    /// # Errors
    /// When a file cannot be read or its content is invalid; the error names the file. The files before it
    /// have been loaded.
    pub async fn load_fixtures(&self, folder: impl AsRef<Path> + Send) -> Result<LoadedFixtures, Error> {
        let folder = folder.as_ref().to_owned();
        if !folder.is_dir() {
            return Err(Error::new(format!("loading fixtures from {}", folder.display()), "it is no folder"));
        }
        let mut loaded = LoadedFixtures::default();
        let accounts: Vec<AccountEntry> = read(&folder.join("accounts.json"))?.unwrap_or_default();
        for entry in &accounts {
            self.load_account(entry).await?;
            loaded.accounts += 1;
        }
        for entry in accounts.iter().filter(|entry| entry.is_organization) {
            let organization = self.fixture_account(&entry.username).await?;
            for member in &entry.members {
                let member = self.fixture_account(member).await?;
                self.app.database.add_member(organization.id, member.id).await?;
            }
        }
        for file in models(&folder.join("models"))? {
            self.load_model(&file).await?;
            loaded.models += 1;
        }
        self.keep_initial_state(&folder).await?;
        loaded.files = self.load_files(&folder).await?;
        Ok(loaded)
    }

    /// Stores the files of `files.json`.
    pub(super) async fn load_files(&self, folder: &Path) -> Result<usize, Error> {
        let files: Vec<FileEntry> = read(&folder.join("files.json"))?.unwrap_or_default();
        let count = files.len();
        for entry in files {
            self.load_file(folder, entry).await?;
        }
        Ok(count)
    }

    async fn fixture_account(&self, username: &str) -> Result<Account, Error> {
        Admin::new(&self.app).account(username, "loading fixtures").await
    }

    async fn load_account(&self, entry: &AccountEntry) -> Result<(), Error> {
        let scope = if entry.is_organization { Scope::Organization } else { Scope::Personal };
        let new = NewAccount::draw(&entry.username, scope, &self.app.random)?;
        let account = self.app.database.add_account(&new, self.now()).await?;
        for key in &entry.keys {
            self.app.database.add_key(account.id, &NewKey::chosen(key)?.kept, self.now()).await?;
        }
        let amounts = Amounts { balance: entry.balance, free_balance: entry.free_balance, debt: entry.debt };
        self.set_balance(&entry.username, amounts).await
    }

    /// Publishes a model, in the form in which any model is published, for the account that its folder is
    /// named after.
    async fn load_model(&self, file: &Path) -> Result<(), Error> {
        let failed =
            |cause: Box<dyn StdError + Send + Sync>| Error::new(format!("loading {}", file.display()), cause);
        let publisher = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let owner = self.fixture_account(publisher.unwrap_or_default()).await?;
        let text = fs::read_to_string(file).map_err(|cause| failed(cause.into()))?;
        let spec = ModelSpec::from_json(&text).map_err(|cause| failed(cause.into()))?;
        let model = spec.to_model(&owner, self.now()).map_err(|cause| failed(cause.into()))?;
        match self.app.database.publish(&[model], Existing::Replace).await? {
            0 => Err(failed(format!("{:?} belongs to another account", spec.id).into())),
            _ => Ok(()),
        }
    }

    async fn load_file(&self, folder: &Path, entry: FileEntry) -> Result<(), Error> {
        let doing = || format!("loading the file {:?}", entry.name);
        if !FOLDERS.contains(&entry.folder.as_str()) || entry.name.contains('/') || entry.name.is_empty() {
            let cause = format!("its folder is one of {}, and its name has no slash", FOLDERS.join(", "));
            return Err(Error::new(doing(), cause));
        }
        let owner = self.fixture_account(&entry.account).await?;
        let content = fs::read(folder.join(&entry.path))
            .map_err(|cause| Error::new(doing(), format!("{}: {cause}", entry.path.display())))?;
        store_local(&self.app, owner, &entry.folder, &entry.name, &entry.mime, content).await
    }
}

/// The files that describe models, in the folders of their publishers, by name.
fn models(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for publisher in entries(folder)? {
        files.extend(entries(&publisher)?.into_iter().filter(|file| file.extension().is_some()));
    }
    Ok(files)
}

/// What is in a folder, by name; nothing when there is no such folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = || {
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            entries.push(entry?.path());
        }
        entries.sort();
        Ok(entries)
    };
    match list() {
        Err(cause) if !missing(&cause) => Err(Error::new(format!("reading {}", folder.display()), cause)),
        entries => Ok(entries.unwrap_or_default()),
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, Error> {
    let doing = || format!("reading {}", file.display());
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|cause| Error::new(doing(), cause)),
        Err(cause) if missing(&cause) => Ok(None),
        Err(cause) => Err(Error::new(doing(), cause)),
    }
}

fn missing(cause: &std::io::Error) -> bool {
    cause.kind() == std::io::ErrorKind::NotFound
}
