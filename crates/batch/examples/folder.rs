//! Runs a model on every picture of a folder and pays for each picture once, even if the program is killed.
//! Started again, the program continues from the journal.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]

use std::path::{Path, PathBuf};

use futures_util::{StreamExt, stream};
use inferstore::{Client, Decimal, Inputs};
use inferstore_batch::{Batch, Step};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Number of concurrent runs.
const CONCURRENCY: usize = 16;

#[tokio::main]
async fn main() -> Result<()> {
    let cost = run(&Client::from_env()?, "pictures".as_ref(), "outputs".as_ref()).await?;
    println!("the batch cost {cost}");
    Ok(())
}

/// Returns the cost of all pictures, or the first error after the other runs have finished.
pub(crate) async fn run(client: &Client, pictures: &Path, outputs: &Path) -> Result<Decimal> {
    std::fs::create_dir_all(outputs)?;
    let batch = Batch::open(client, outputs.join("journal.jsonl"))?;
    let pictures = std::fs::read_dir(pictures)?.collect::<std::io::Result<Vec<_>>>()?;
    let costs = stream::iter(pictures).map(|picture| dehaze(client, &batch, picture.path(), outputs));
    let mut costs = costs.buffer_unordered(CONCURRENCY);
    let mut sum = Decimal::default();
    let mut failed = None;
    while let Some(cost) = costs.next().await {
        match cost {
            Ok(cost) => sum += cost,
            Err(error) => {
                eprintln!("{error}");
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(sum), Err)
}

async fn dehaze(client: &Client, batch: &Batch, picture: PathBuf, outputs: &Path) -> Result<Decimal> {
    let item = batch.item(picture.to_string_lossy());
    if let Some(Step::Done { cost, .. }) = item.step()? {
        return Ok(cost.parse()?);
    }
    let inputs = || Inputs::new().file("input_image", picture.as_path());
    let task = item.start(|| client.model("haze-removal").prepare(inputs())).await?;
    let outcome = item.ended(task.wait().await)?;
    let name = picture.file_name().unwrap_or_default().to_string_lossy();
    let file = outcome
        .download("output_image")?
        .limits(|limits| limits.overwrite = true)
        .to_dir(outputs, name)
        .await?;
    item.done(&outcome, vec![file.path])?;
    Ok(outcome.cost.unwrap_or_default())
}
