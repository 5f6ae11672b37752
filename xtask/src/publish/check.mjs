// Reads a publication the way strict tools do: ajv compiles every schema in its default mode, without
// a plugin for formats, and swagger-parser validates every form of the document.
// Arguments: the folder with node_modules, the folder of the publication.

import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, publication] = process.argv.slice(1);
const require = createRequire(join(modules, 'package.json'));
const { Ajv2020 } = require('ajv/dist/2020.js');
const { SwaggerParser } = require('@apidevtools/swagger-parser');

const complaints = [];
const logger = { log() {}, warn: message => complaints.push(message), error: message => complaints.push(message) };
const schemas = join(publication, 'schemas');
for (const name of readdirSync(schemas)) {
  try {
    new Ajv2020({ logger }).compile(JSON.parse(readFileSync(join(schemas, name), 'utf8')));
  } catch (error) {
    complaints.push(`schemas/${name}: ${error.message}`);
  }
}
for (const name of ['inferstore.yaml', 'inferstore.json', 'inferstore-3.1.json', 'inferstore-codes.json', 'inferstore-typed.json']) {
  try {
    await SwaggerParser.validate(join(publication, name));
  } catch (error) {
    complaints.push(`${name}: ${error.message}`);
  }
}
if (complaints.length > 0) {
  console.error(complaints.join('\n'));
  process.exit(1);
}
