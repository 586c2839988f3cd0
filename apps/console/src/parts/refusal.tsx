import type { ReactNode } from "react";

/** Shows the reason of a refusal, and announces it to assistive technology; renders no element without a reason. */
export function Refusal({ children }: { readonly children: string }): ReactNode {
  if (children === "") return null;
  return (
    <p className="notice bad" role="alert">
      {children}
    </p>
  );
}
