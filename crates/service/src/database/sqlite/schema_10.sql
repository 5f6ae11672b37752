-- Tenth version: an index of the parts of names and descriptions that have three characters, for searching.
CREATE VIRTUAL TABLE model_texts USING fts5 (
    folded_name, folded_description,
    content = 'models', content_rowid = 'sequence', tokenize = 'trigram case_sensitive 1'
);
INSERT INTO model_texts (model_texts) VALUES ('rebuild');
CREATE TRIGGER model_text_added AFTER INSERT ON models BEGIN
    INSERT INTO model_texts (rowid, folded_name, folded_description)
    VALUES (new.sequence, new.folded_name, new.folded_description);
END;
CREATE TRIGGER model_text_changed AFTER UPDATE OF folded_name, folded_description ON models BEGIN
    INSERT INTO model_texts (model_texts, rowid, folded_name, folded_description)
    VALUES ('delete', old.sequence, old.folded_name, old.folded_description);
    INSERT INTO model_texts (rowid, folded_name, folded_description)
    VALUES (new.sequence, new.folded_name, new.folded_description);
END;
