-- Eighteenth version: the texts, the price and the visibility that the publisher of a model stated last, as JSON; null if
-- an earlier version published the model.
ALTER TABLE models ADD COLUMN stated TEXT;
