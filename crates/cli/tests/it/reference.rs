//! The words of the command: its tree is a snapshot, its reference is up to date.

const REFERENCE: &str = include_str!("../../../../docs/cli.md");

#[test]
fn the_command_tree() {
    let mut tree = String::new();
    let mut command = inferstore_cli::command();
    command.build();
    describe(&command, 0, &mut tree);
    insta::assert_snapshot!("tree", tree);
}

fn describe(command: &clap::Command, depth: usize, tree: &mut String) {
    let indent = "  ".repeat(depth);
    tree.push_str(&format!("{indent}{}\n", command.get_name()));
    let own = |argument: &&clap::Arg| depth == 0 || !argument.is_global_set();
    for argument in command.get_arguments().filter(own).filter(|argument| argument.get_id() != "help") {
        let required = if argument.is_required_set() { " (required)" } else { "" };
        tree.push_str(&format!("{indent}  | {argument}{required}\n"));
    }
    for below in command.get_subcommands() {
        describe(below, depth + 1, tree);
    }
}

#[test]
fn every_argument_and_every_command_is_documented() {
    fn check(command: &clap::Command, parents: &str, undocumented: &mut Vec<String>) {
        let name = format!("{parents}{} ", command.get_name());
        if command.get_about().is_none() {
            undocumented.push(name.clone());
        }
        let is_leaf = !command.has_subcommands() && !command.is_hide_set();
        if is_leaf && !command.get_after_help().is_some_and(|help| help.to_string().contains("inferstore ")) {
            undocumented.push(format!("{name}(examples)"));
        }
        for argument in command.get_arguments().filter(|argument| argument.get_help().is_none()) {
            undocumented.push(format!("{name}{argument}"));
        }
        command.get_subcommands().for_each(|below| check(below, &name, undocumented));
    }
    let (mut command, mut undocumented) = (inferstore_cli::command(), Vec::new());
    command.build();
    check(&command, "", &mut undocumented);
    assert!(undocumented.is_empty(), "{undocumented:#?}");
    inferstore_cli::command().debug_assert();
}

#[test]
fn the_reference_is_up_to_date() {
    let how = "write it with: cargo run -p inferstore-cli -- reference > docs/cli.md";
    assert!(REFERENCE == inferstore_cli::reference(), "docs/cli.md differs from the commands; {how}");
}

#[test]
fn the_help_of_every_command() {
    fn collect(command: &mut clap::Command, name: &str, text: &mut String) {
        text.push_str(&format!("$ {name} -h\n{}\n", command.render_help()));
        for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set()) {
            let name = format!("{name} {}", below.get_name());
            collect(below, &name, text);
        }
    }
    let mut command = inferstore_cli::command().term_width(100);
    command.build();
    let mut text = String::new();
    collect(&mut command, "inferstore", &mut text);
    insta::assert_snapshot!("help", text);
}

#[test]
fn every_command_has_a_manual_page() {
    let pages = inferstore_cli::manual();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"inferstore.1") && names.contains(&"inferstore-files-upload.1"), "{names:?}");
    let shown = |name: &str| {
        let (_, page) = pages.iter().find(|(page, _)| page == name).expect("it is there");
        String::from_utf8_lossy(page).into_owned()
    };
    insta::assert_snapshot!("manual", format!("{}\n{}", names.join("\n"), shown("inferstore-run.1")));
}
