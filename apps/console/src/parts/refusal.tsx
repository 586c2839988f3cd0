import type { ReactNode } from "react";

/** Shows why something was refused, and announces it; nothing without a reason. */
export function Refusal({ children }: { readonly children: string }): ReactNode {
  if (children === "") return null;
  return (
    <p className="notice bad" role="alert">
      {children}
    </p>
  );
}
