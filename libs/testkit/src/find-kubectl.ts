import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

/** The kubectl to test with, or why none was found. */
export function findKubectl(): { readonly path: string } | { readonly reason: string } {
  const assets = process.env["KUBEBUILDER_ASSETS"] ?? "";
  const candidates = [assets, ...(process.env["PATH"] ?? "").split(":")].filter((directory) => directory !== "");
  const path = candidates.map((directory) => join(directory, "kubectl")).find((file) => existsSync(file));
  if (path !== undefined && runs(path)) return { path };
  const reason = "no kubectl in KUBEBUILDER_ASSETS or on the PATH";
  if (process.env["CI"] === "true") throw new Error(`CI=true allows no skipped suite: ${reason}`);
  return { reason };
}

function runs(path: string): boolean {
  try {
    execFileSync(path, ["version", "--client"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
