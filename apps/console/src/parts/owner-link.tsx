import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { workPathOf } from "../domain/work.ts";

/** Splits `session/echo` into its parts. */
export function ownerParts(text: string): { readonly kind: string; readonly id: string } {
  const slash = text.indexOf("/");
  return { kind: text.slice(0, slash), id: text.slice(slash + 1) };
}

/** Shows an owner, as a link if its id determines its page. */
export function OwnerLink({ owner }: { readonly owner: { readonly kind: string; readonly id: string } }): ReactNode {
  const label = `${owner.kind}/${owner.id}`;
  // Jobs are found by their names, because the ledger does not know their namespaces.
  if (owner.kind === "job")
    return (
      <Link className="long" to="/workloads" search={{ q: owner.id, kind: "job" }}>
        {label}
      </Link>
    );
  const path = workPathOf(owner);
  if (path === undefined) return <span className="long">{label}</span>;
  const { kind, id } = ownerParts(path);
  return (
    <Link className="long" to="/workloads/$kind/$" params={{ kind, _splat: id }}>
      {label}
    </Link>
  );
}
