// A program that knows Millrace from docs/wire-format.md alone: events from standard input to Kafka, with npm's ordinary clients.
//
//   node produce.mjs records BOOTSTRAP TOPIC IDS.json < events     each event a message
//   node produce.mjs chunks BOOTSTRAP TOPIC IDS.json < events      chunks, then a punctuation in each partition
//
// A line of input is {"partition": 0, "type": "Deposit", "event": {...}}; chunks take {"epoch": 2, "ts": 3000} as their first line.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

// The packages are installed in the folder where it runs, not beside this file.
const require = createRequire(`${process.cwd()}/`);
const avro = require('avsc');
const { Kafka, CompressionTypes, Partitioners, logLevel } = require('kafkajs');

const EVENTS_A_CHUNK = 40;
const [mode, bootstrap, topic, idsFile] = process.argv.slice(2);
const lines = readFileSync(0, 'utf8').split('\n').filter((line) => line).map((line) => JSON.parse(line));

const schemas = JSON.parse(readFileSync(idsFile, 'utf8')).schemas;

function codec(ending) {
  const found = schemas.find(({ subject }) => subject.endsWith(`.${ending}`));
  const type = avro.Type.forSchema(found.schema, { wrapUnions: true });
  const head = Buffer.alloc(5);
  head.writeUInt32BE(found.id, 1);
  return { id: found.id, type, frame: (body) => Buffer.concat([head, body]) };
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return ~crc >>> 0;
}

function asRecords() {
  const codecs = {};
  return lines.map(({ partition, type, event }) => {
    codecs[type] ??= codec(`record.${type}`);
    return { partition, value: codecs[type].frame(codecs[type].type.toBuffer(event)) };
  });
}

function asChunks() {
  const [{ epoch, ts }, ...events] = lines;
  const [chunks, punctuations] = [codec('event-chunk'), codec('punctuation')];
  const namespace = schemas.find(({ id }) => id === chunks.id).schema.namespace;
  const partitions = Math.max(...events.map(({ partition }) => partition)) + 1;
  const messages = [];
  const put = Array.from({ length: partitions }, () => ({ chunks: 0, events: 0, checksum: 0 }));
  let number = 0;
  for (let partition = 0; partition < partitions; partition += 1) {
    const mine = events.filter((each) => each.partition === partition);
    while (mine.length > 0) {
      const some = mine.splice(0, EVENTS_A_CHUNK).map(({ type, event }) => ({ [`${namespace}.${type}`]: event }));
      const body = chunks.type.toBuffer({ source: 0, epoch, chunk: number, events: some });
      number += 1;
      const counted = put[partition];
      counted.chunks += 1;
      counted.events += some.length;
      counted.checksum = (counted.checksum + crc32(body)) % 2 ** 32;
      messages.push({ partition, value: chunks.frame(body) });
    }
    const said = { source: 0, epoch, ts, ...put[partition] };
    messages.push({ partition, value: punctuations.frame(punctuations.type.toBuffer(said)) });
  }
  return messages;
}

const kafka = new Kafka({ clientId: 'foreign', brokers: [bootstrap], logLevel: logLevel.ERROR });
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner });
await producer.connect();
const messages = mode === 'records' ? asRecords() : asChunks();
while (messages.length > 0) {
  await producer.send({ topic, acks: -1, compression: CompressionTypes.None, messages: messages.splice(0, 500) });
}
await producer.disconnect();
