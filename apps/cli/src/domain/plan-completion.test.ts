import { describe, expect, it } from "vitest";
import { planCompletion, type CommandShape } from "./plan-completion.ts";

const output = { flags: ["--output", "-o"], takesValue: true, choices: ["table", "json"] };
const follow = { flags: ["--follow", "-f"], takesValue: false, choices: [] };
const argument = (name: string, choices: string[] = [], variadic = false) => ({ name, choices, variadic });
const COMMANDS: CommandShape[] = [
  { name: "run", options: [output], arguments: [argument("file", [], true)] },
  { name: "get", options: [output], arguments: [argument("resource", ["sessions", "pools"]), argument("name")] },
  { name: "logs", options: [follow], arguments: [argument("name"), argument("component")] },
  { name: "cancel", options: [], arguments: [argument("name")] },
  { name: "wait", options: [{ flags: ["--for"], takesValue: true, choices: [] }], arguments: [argument("name")] },
  {
    name: "letters",
    commands: [{ name: "show", options: [output], arguments: [argument("id")] }],
    options: [],
    arguments: [],
  },
  {
    name: "nodes",
    commands: [
      { name: "list", options: [{ flags: ["--pool", "-p"], takesValue: true, choices: [] }], arguments: [] },
      { name: "terminate", options: [output], arguments: [argument("node")] },
    ],
    options: [],
    arguments: [],
  },
];
const COMMON = [{ flags: ["--nats-url"], takesValue: true, choices: [] }];
const plan = (...line: string[]) => planCompletion(COMMANDS, COMMON, line);

describe("offers for a command line", () => {
  it.each<[string, string[], string[]]>([
    ["nothing typed: every command", [""], ["run", "get", "logs", "cancel", "wait", "letters", "nodes"]],
    ["the beginning of a command", ["lo"], ["logs"]],
    ["the commands of a command", ["letters", ""], ["show"]],
    ["the options of a command of a command", ["letters", "show", "-o", "t"], ["table"]],
    ["nothing for a command of a command that does not exist", ["letters", "burn", ""], []],
    ["the choices of an argument", ["get", ""], ["sessions", "pools"]],
    ["the values of an option", ["get", "sessions", "-o", "j"], ["json"]],
    ["an argument after an option with its value", ["get", "-o", "json", "p"], ["pools"]],
    ["the options of a command and the common ones", ["logs", "--"], ["--follow", "--nats-url", "--help"]],
    ["a command after a common option", ["--nats-url", "x", "c"], ["cancel"]],
    ["nothing for the value of an option that can be anything", ["--nats-url", "r"], []],
    ["nothing where no argument is left", ["cancel", "a", ""], []],
    ["nothing after a command that does not exist", ["fly", ""], []],
    ["files are left to the shell", ["run", "a.yaml", ""], []],
  ])("%s", (_what, line, words) => {
    expect(plan(...line).words).toEqual(words);
  });

  it.each<[string[], object | undefined]>([
    [["logs", ""], { names: "items", of: undefined }],
    [["logs", "-f", "s", ""], { names: "components", of: "s" }],
    [["cancel", ""], { names: "items", of: undefined }],
    [["get", "sessions", ""], { names: "items", of: "sessions" }],
    [["get", "pools", ""], { names: "items", of: "pools" }],
    [["nodes", "terminate", ""], { names: "items", of: "node" }],
    [["nodes", "list", "-p", "e"], { names: "items", of: "pool" }],
    [["wait", "job/a", "--for", "c"], { names: "conditions", of: "job/a" }],
    [["get", ""], undefined],
    [["run", ""], undefined],
  ])("offers the names that are valid there: %j", (line, source) => {
    expect(plan(...line).source).toEqual(source);
  });
});
