import { BlockList, isIP, isIPv4 } from "node:net";
import type { Environment } from "@marcbachmann/cel-js";
import { isCidr } from "./formats.ts";

class Address {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

class Network {
  readonly address: string;
  readonly length: number;
  readonly members: BlockList;
  constructor(text: string) {
    const [address = "", length = "0"] = text.split("/");
    this.address = address;
    this.length = Number(length);
    this.members = new BlockList();
    this.members.addSubnet(address, this.length, familyOf(address));
  }
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIPv4(address) ? "ipv4" : "ipv6";
}

function isWithin(address: Address, networks: readonly string[]): boolean {
  return networks.some((one) => contains(new Network(one), address.text));
}

function contains({ members, address }: Network, other: string): boolean {
  return familyOf(address) === familyOf(other) && members.check(other, familyOf(other));
}

function parseUrl(text: string): URL | undefined {
  if (text.startsWith("/")) return URL.canParse(`none://${text}`) ? new URL(`none://${text}`) : undefined;
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** `url(...)`, `ip(...)`, `cidr(...)` and what they are asked. */
export function addAddresses(environment: Environment): void {
  addUrls(environment);
  environment
    .registerType("net.IP", { ctor: Address, fields: {} })
    .registerType("net.CIDR", { ctor: Network, fields: {} })
    .registerOperator("net.IP == net.IP", (a: Address, b: Address) => a.text === b.text)
    .registerFunction("isIP(string): bool", (text: string) => isIP(text) !== 0)
    .registerFunction("ip(string): net.IP", (text: string) => {
      if (isIP(text) === 0)
        throw new Error(`IP Address ${JSON.stringify(text)} parse error during conversion from string`);
      return new Address(text);
    })
    .registerFunction("string(net.IP): string", (one: Address) => one.text)
    .registerFunction("net.IP.family(): int", (one: Address) => (isIPv4(one.text) ? 4n : 6n))
    .registerFunction("net.IP.isLoopback(): bool", (one: Address) => isWithin(one, ["127.0.0.0/8", "::1/128"]))
    .registerFunction("net.IP.isUnspecified(): bool", (one: Address) => ["0.0.0.0", "::"].includes(one.text))
    .registerFunction("isCIDR(string): bool", isCidr)
    .registerFunction("cidr(string): net.CIDR", (text: string) => {
      if (!isCidr(text)) throw new Error("network address parse error during conversion from string");
      return new Network(text);
    })
    .registerFunction("net.CIDR.prefixLength(): int", (one: Network) => BigInt(one.length))
    .registerFunction("net.CIDR.ip(): net.IP", (one: Network) => new Address(one.address))
    .registerFunction("net.CIDR.containsIP(net.IP): bool", (one: Network, other: Address) => contains(one, other.text))
    .registerFunction("net.CIDR.containsIP(string): bool", (one: Network, other: string) => contains(one, other))
    .registerFunction("net.CIDR.containsCIDR(string): bool", (one: Network, text: string) =>
      covers(one, new Network(text)),
    )
    .registerFunction("net.CIDR.containsCIDR(net.CIDR): bool", covers);
}

function covers(one: Network, other: Network): boolean {
  return one.length <= other.length && contains(one, other.address);
}

function addUrls(environment: Environment): void {
  environment
    .registerType("kubernetes.URL", { ctor: URL, fields: {} })
    .registerFunction("isURL(string): bool", (text: string) => parseUrl(text) !== undefined)
    .registerFunction("url(string): kubernetes.URL", (text: string) => {
      const parsed = parseUrl(text);
      if (parsed === undefined) throw new Error(`URL parse error during conversion from string: ${text}`);
      return parsed;
    })
    .registerFunction("kubernetes.URL.getScheme(): string", (one: URL) => one.protocol.replace(/^none|:$/g, ""))
    .registerFunction("kubernetes.URL.getHost(): string", (one: URL) => one.host)
    .registerFunction("kubernetes.URL.getHostname(): string", (one: URL) => one.hostname.replace(/^\[|\]$/g, ""))
    .registerFunction("kubernetes.URL.getPort(): string", (one: URL) => one.port)
    .registerFunction("kubernetes.URL.getEscapedPath(): string", (one: URL) => one.pathname)
    .registerFunction("kubernetes.URL.getQuery(): map<string, list<string>>", (one: URL) => {
      const keys = [...new Set(one.searchParams.keys())];
      return new Map(keys.map((key) => [key, one.searchParams.getAll(key)]));
    });
}
