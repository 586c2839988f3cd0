import { describe, expect, it } from "vitest";
import type { Contexts } from "./contexts.ts";
import { decideGateway, buildPlainServerHint } from "./decide-gateway.ts";

const NONE: Contexts = { clusters: [], users: [], contexts: [], "current-context": "" };
const ENV = {
  server: undefined,
  natsUrl: undefined,
  token: "secret",
  tokenFile: undefined,
  caFile: undefined,
  isPlainHttpAllowed: false,
};

function withServer(server: string): Contexts {
  const name = "there";
  return {
    ...NONE,
    clusters: [{ name, cluster: { server } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    "current-context": name,
  };
}

describe("the address of a gateway", () => {
  it.each([
    "https://muster.example.com",
    "http://127.0.0.1:8480",
    "http://127.1.2.3",
    "http://localhost:8480",
    "http://[::1]:8480",
  ])("may be %s", (server) => {
    expect(decideGateway({ server }, ENV, () => NONE)).toMatchObject({ server });
    expect(decideGateway({}, ENV, () => withServer(server))).toMatchObject({ server });
  });

  it.each([
    "http://muster.example.com",
    "http://10.0.0.1:8480",
    "http://127.example.com",
    "http://localhost.example.com",
  ])("is %s only if plain HTTP is allowed", (server) => {
    const problem = {
      problem: expect.stringContaining(server) as unknown,
      hint: expect.stringContaining("https") as unknown,
    };
    expect(decideGateway({ server }, ENV, () => NONE)).toEqual(problem);
    expect(decideGateway({}, ENV, () => withServer(server))).toEqual(problem);
    const allowed = { ...ENV, isPlainHttpAllowed: true };
    expect(decideGateway({ server }, allowed, () => NONE)).toMatchObject({ server });
    expect(decideGateway({}, allowed, () => withServer(server))).toMatchObject({ server });
  });

  it("has no user and no password, and no error shows them", () => {
    const server = "https://ada:pa/ss@muster.example.com";
    for (const found of [
      decideGateway({ server }, ENV, () => NONE),
      decideGateway({}, ENV, () => withServer(server)),
    ]) {
      expect(found).toMatchObject({ problem: expect.stringContaining("https://…@muster.example.com") as unknown });
      expect(JSON.stringify(found)).not.toContain("pa/ss");
    }
  });
});

it("suggests plain HTTP only on this machine, if a gateway serves no TLS", () => {
  expect(buildPlainServerHint("https://127.0.0.1:8480")).toContain("http://");
  expect(buildPlainServerHint("https://muster.example.com")).not.toContain("http://");
});
