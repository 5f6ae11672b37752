//! Names of the document in the cases of generated code.

/// `userID`, `UserId` and `user-id` are all `user_id`.
pub fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (index, letter) in letters.iter().enumerate() {
        if !letter.is_alphanumeric() {
            snake.push('_');
            continue;
        }
        let before = index.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(index + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase()
                    || before.is_numeric()
                    || before.is_uppercase() && after.is_some_and(|after| after.is_lowercase())
            });
        if begins {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    let words: Vec<&str> = snake.split('_').filter(|word| !word.is_empty()).collect();
    words.join("_")
}

/// `page_2` and `page2` are both `Page2`.
pub fn pascal_case(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_alphanumeric());
    let capital = |word: &str| -> String {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    words.map(capital).collect()
}
