"""English words for Chinese ones that requests are made of, so that a Chinese request finds a skill written in English."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from skillyard.search.words import words

__all__ = ["translated"]

_WIDE: Final = re.compile("[\u4e00-\u9fff]")
_TABLE: Final = """
表格=spreadsheet excel xlsx|电子表格=spreadsheet excel xlsx|工作簿=workbook excel|公式=formula|单元格=cell spreadsheet
幻灯片=slides pptx presentation|演示文稿=presentation slides pptx|演示=presentation demo|文档=document docs|文件=file
部署=deploy deployment|发布=release publish|上线=deploy release|测试=test testing|单元测试=unit test|自动化=automation
浏览器=browser|网页=web page|网站=website|前端=frontend|后端=backend|接口=api interface|数据库=database sql|查询=query
数据=data|分析=analysis|可视化=visualization chart|图表=chart|图片=image|图像=image|照片=photo image|视频=video|音频=audio
语音=voice speech audio|字幕=subtitle caption|翻译=translate translation|摘要=summary summarize|总结=summary summarize
合并=merge|拆分=split|提取=extract|转换=convert|压缩=compress|解析=parse|抓取=scrape crawl|爬虫=scraper crawler scraping
搜索=search|检索=retrieval search|邮件=email mail|邮箱=email|日历=calendar|会议=meeting|纪要=minutes notes|笔记=notes
任务=task|待办=todo task|项目=project|计划=plan|需求=requirements|设计=design|界面=ui interface|原型=prototype|品牌=brand
代码=code|审查=review|评审=review|重构=refactor refactoring|调试=debug debugging|错误=error|修复=fix
漏洞=vulnerability security|安全=security|权限=permission|加密=encryption|密码=password|登录=login authentication
认证=authentication|性能=performance|优化=optimize optimization|监控=monitoring|日志=log logging|告警=alert
容器=container docker|集群=cluster kubernetes|云=cloud|服务器=server|网络=network|域名=domain dns|备份=backup|迁移=migration
提交=commit git|分支=branch git|仓库=repository|版本=version|依赖=dependency|架构=architecture|微服务=microservices
缓存=cache|队列=queue|消息=message|通知=notification|机器人=bot robot|聊天=chat|智能体=agent|模型=model|训练=training
微调=fine tuning|提示词=prompt|机器学习=machine learning|深度学习=deep learning|神经网络=neural network|统计=statistics
预测=forecast prediction|天气=weather|地图=map|股票=stock|财务=finance financial|会计=accounting|发票=invoice|报销=expense
税=tax|合同=contract|法律=legal law|法规=regulation|简历=resume cv|招聘=recruiting hiring|面试=interview|营销=marketing
广告=advertising ads|文案=copywriting copy|销售=sales|客户=customer|客服=customer support|电商=ecommerce|产品=product
用户研究=user research|竞品=competitor|市场=market|社交媒体=social media|小红书=xiaohongshu|微信=wechat|公众号=wechat
推特=twitter|视频号=wechat video|抖音=douyin tiktok|论文=paper academic|文献=literature citation|引用=citation|学术=academic
科研=research scientific|实验=experiment|化学=chemistry|分子=molecule|生物=biology|基因=gene genome|蛋白=protein|药物=drug
医学=medical|临床=clinical|物理=physics|数学=math|小说=novel fiction|写作=writing|文章=article|博客=blog|新闻=news
报告=report|教程=tutorial|课程=course|学习=learning|食谱=recipe|旅行=travel|航班=flight|酒店=hotel|健康=health|健身=fitness
音乐=music|游戏=game|动画=animation|三维=3d|字体=font|颜色=color|主题=theme|海报=poster|图标=icon|表单=form|填写=fill
签名=signature|水印=watermark|扫描=scan ocr|识别=recognition ocr|二维码=qr code|下载=download|上传=upload|脚本=script
命令行=cli command line|终端=terminal|插件=plugin|组件=component|移动=mobile|小程序=mini program|安卓=android|苹果=ios apple
支付=payment|订单=order|区块链=blockchain|钱包=wallet|交易=trading transaction|加密货币=crypto|思维导图=mind map
流程图=flowchart diagram|图=diagram|架构图=architecture diagram|时间序列=time series|清洗=cleaning|去重=deduplicate
正则=regex|编码=encoding|爬取=scrape crawl|本地化=localization i18n|国际化=i18n internationalization|无障碍=accessibility
搜索引擎优化=seo|关键词=keyword|知识库=knowledge base|问答=qa question answer|记忆=memory|工作流=workflow|流水线=pipeline
定时=schedule cron|提醒=reminder|截图=screenshot|剪辑=edit video|配音=voiceover tts|创建=create|生成=generate|编辑=edit
整理=organize|文件夹=folder|重命名=rename|技能=skill|规范=standard guidelines|变更日志=changelog
"""


def translated(text: str) -> list[str]:
    """The English words, as `words` gives them, for the Chinese ones in `text`; the longest that fit, from the left."""
    if not _WIDE.search(text):
        return []
    table, longest = _table()
    found: dict[str, None] = {}
    at = 0
    while at < len(text):
        length = next((size for size in range(longest, 0, -1) if text[at : at + size] in table), 0)
        if length:
            found.update(dict.fromkeys(table[text[at : at + length]]))
        at += length or 1
    return list(found)


@cache
def _table() -> tuple[dict[str, tuple[str, ...]], int]:
    entries = (entry.partition("=") for line in _TABLE.split("\n") for entry in line.split("|") if entry)
    table = {chinese: tuple(words(english)) for chinese, _, english in entries}
    return table, max(map(len, table))
