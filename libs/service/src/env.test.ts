import fc from "fast-check";
import { expect, it } from "vitest";
import { readEnv, type EnvReader } from "./env.ts";

const build = (read: EnvReader) => ({
  natsUrl: read.url("MUSTER_NATS_URL", "nats://127.0.0.1:4222"),
  lockTtlMs: read.integer("LOCK_TTL_MS", { fallback: 5000, min: 100, max: 60_000 }),
  name: read.text("NAME"),
  colour: read.matching("COLOUR", { fallback: "red", pattern: /^[a-z]+$/, needed: "lower case letters are needed" }),
  traced: read.flag("TRACED", false),
  level: read.oneOf("LEVEL", ["low", "high"], "low"),
  token: read.optional("TOKEN"),
});

it("uses defaults for absent or empty variables", () => {
  expect(readEnv({ NAME: "a", LOCK_TTL_MS: "", TRACED: " " }, build)).toEqual({
    natsUrl: "nats://127.0.0.1:4222",
    lockTtlMs: 5000,
    name: "a",
    colour: "red",
    traced: false,
    level: "low",
    token: undefined,
  });
});

it("names every problem, with the value and what would be right, in one message", () => {
  const env = { MUSTER_NATS_URL: "here", LOCK_TTL_MS: "5s", COLOUR: "Red", TRACED: "yes", LEVEL: "mid" };
  expect(() => readEnv(env, build)).toThrow(
    [
      "environment: ",
      'MUSTER_NATS_URL is "here"; a URL such as nats://127.0.0.1:4222 is needed',
      'LOCK_TTL_MS is "5s"; a whole number from 100 to 60000 is needed',
      "NAME is missing",
      'COLOUR is "Red"; lower case letters are needed',
      'TRACED is "yes"; true or false is needed',
      'LEVEL is "mid"; one of low, high is needed',
    ].join("\n"),
  );
});

it("does not show the credentials of a URL that is wrong", () => {
  const env = { NAME: "a", MUSTER_NATS_URL: "nats//user:secret@host:4222" };
  expect(() => readEnv(env, build)).toThrow('MUSTER_NATS_URL is "nats//...@host:4222"');
  const several = { NAME: "a", MUSTER_NATS_URL: "nats//user:se/cr@t@a:1, u:p@b" };
  expect(() => readEnv(several, build)).toThrow('MUSTER_NATS_URL is "nats//...@a:1,...@b"');
});

it("never lets a number through that is not whole or not within its bounds", () => {
  const number = (text: string) => readEnv({ N: text }, (read) => read.integer("N", { min: 1, max: 10 }));
  fc.assert(
    fc.property(fc.oneof(fc.double().map(String), fc.string(), fc.integer().map(String)), (text) => {
      let value;
      try {
        value = number(text);
      } catch {
        return;
      }
      expect(Number.isInteger(value) && value >= 1 && value <= 10).toBe(true);
    }),
  );
});
