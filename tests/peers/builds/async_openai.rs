//! Queries a model of OpenAI, as a user of `async-openai` would write it.

use async_openai::Client;
use async_openai::types::chat::{ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequestArgs};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let message = ChatCompletionRequestUserMessageArgs::default().content("What is in a photo?").build()?;
    let request =
        CreateChatCompletionRequestArgs::default().model("gpt-5").messages([message.into()]).build()?;
    let answer = Client::new().chat().create(request).await?;
    println!("{:?}", answer.choices);
    Ok(())
}
