import { labels, words } from "@/i18n";

export const scanned = words(
  {
    none: "No findings",
    clean: "The scanner found nothing. This is advice, not proof.",
    found: (count: number) => (count === 1 ? "The scanner has 1 finding. Review it yourself." : `The scanner has ${count} findings. Review them yourself.`),
    risk: labels({ high: "High risk", medium: "Medium risk", low: "Low risk", info: "Notes" }),
    withdrawn: { deprecated: "Deprecated", withdrawn: "No longer approved", yanked: "Withdrawn" },
    withdrawnTitle: { deprecated: "This version is deprecated", withdrawn: "This version is no longer approved", yanked: "This version was withdrawn" },
  },
  {
    none: "未发现问题",
    clean: "扫描器没有发现问题。这只是参考，不是证明。",
    found: (count) => `扫描器有 ${count} 项发现。这只是参考，请自行查看。`,
    risk: labels({ high: "高风险", medium: "中风险", low: "低风险", info: "提示" }),
    withdrawn: { deprecated: "已弃用", withdrawn: "不再获批", yanked: "已撤回" },
    withdrawnTitle: { deprecated: "此版本已弃用", withdrawn: "此版本不再获批", yanked: "此版本已撤回" },
  },
);
